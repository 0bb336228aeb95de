"""A time-stamp authority on loopback: OpenSSL's own, behind HTTP."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

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


def make_certificate(folder: Path, name: str, subject: str, extensions: str) -> Path:
    """A root and one certificate under it, as NAME.pem and NAME.key beside root.pem; the root's path."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    root = folder / "root.pem"
    itself = ("-subj", "/O=tests/CN=root", "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-days", "30")
    openssl("req", "-x509", *key, "-keyout", folder / "root.key", "-out", root, *itself)
    asked = folder / f"{name}.csr"
    openssl("req", *key, "-keyout", folder / f"{name}.key", "-out", asked, "-subj", subject)
    (folder / "ext").write_text(extensions)
    by = ("-CA", root, "-CAkey", folder / "root.key", "-CAcreateserial", "-extfile", folder / "ext")
    openssl("x509", "-req", "-in", asked, *by, "-days", "20", "-out", folder / f"{name}.pem")
    return root


def make_authority(folder: Path) -> Path:
    """Keys and certificates of an authority; the root's path."""
    folder.mkdir()
    root = make_certificate(folder, "tsa", "/O=tests/CN=test authority", _EXTENSIONS)
    (folder / "serial").write_text("01")
    (folder / "tsa.cnf").write_text(_CONFIG.format(folder=folder))
    return root


@contextmanager
def serving_stamps(folder: Path) -> Iterator[str]:
    """Answer time-stamp queries until the block ends; yields the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            (folder / "query").write_bytes(query)
            reply: list[str | Path] = [
                "ts",
                "-reply",
                "-config",
                folder / "tsa.cnf",
                "-queryfile",
                folder / "query",
            ]
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
