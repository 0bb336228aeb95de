"""A time-stamp authority on loopback: OpenSSL's own, behind HTTP."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

Arguments = list[str | Path]

_CONFIG = """
[tsa]
default_tsa = it
[it]
dir = {folder}
serial = $dir/serial
signer_cert = $dir/tsa.pem
signer_key = $dir/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
"""
_EXTENSIONS = "basicConstraints=CA:FALSE\nextendedKeyUsage=critical,timeStamping\nkeyUsage=digitalSignature\n"


def openssl(*arguments: str | Path) -> None:
    """Run OpenSSL quietly."""
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)


def make_authority(folder: Path) -> Path:
    """Keys and certificates of an authority; the root's path."""
    folder.mkdir()
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    root: Arguments = [
        "req",
        "-x509",
        *key,
        "-keyout",
        folder / "root.key",
        "-out",
        folder / "root.pem",
        "-days",
        "30",
    ]
    openssl(*root, "-subj", "/CN=test root", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    request: Arguments = ["req", *key, "-keyout", folder / "tsa.key", "-out", folder / "tsa.csr"]
    openssl(*request, "-subj", "/O=tests/CN=test authority")
    (folder / "ext").write_text(_EXTENSIONS)
    sign = [
        "x509",
        "-req",
        "-in",
        folder / "tsa.csr",
        "-CA",
        folder / "root.pem",
        "-CAkey",
        folder / "root.key",
    ]
    openssl(
        *map(str, sign),
        "-CAcreateserial",
        "-extfile",
        folder / "ext",
        "-days",
        "30",
        "-out",
        folder / "tsa.pem",
    )
    (folder / "serial").write_text("01")
    (folder / "tsa.cnf").write_text(_CONFIG.format(folder=folder))
    return folder / "root.pem"


@contextmanager
def serving_stamps(folder: Path) -> Iterator[str]:
    """Answer time-stamp queries until the block ends; yields the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            (folder / "query").write_bytes(query)
            reply: Arguments = ["ts", "-reply", "-config", folder / "tsa.cnf", "-queryfile", folder / "query"]
            openssl(*reply, "-out", folder / "reply")
            answer = (folder / "reply").read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
