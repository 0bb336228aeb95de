from __future__ import annotations

import datetime
import hashlib
import http.server
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from analytics.weights import WEIGHTS, Weights, find_or_fetch, model_folder
from base.errors import AuthenticationFailed, PeerError, UsageError

CONTENT = bytes(range(256)) * 1000


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT at /model.onnx and a redirect to plain http at /away.onnx; counts the requests."""

    num_requests = 0


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # the base class asks for this name
        assert isinstance(self.server, Server)
        self.server.num_requests += 1
        if self.path == "/away.onnx":
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/model.onnx")
            self.end_headers()
            return
        self.send_response(200 if self.path == "/model.onnx" else 404)
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1, with its key, that nobody else trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    path = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server(pem: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with Server(("127.0.0.1", 0), Answer) as running:
        running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def trusting(pem: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pem))


def weights(server: Server, path: str = "/model.onnx", content: bytes = CONTENT) -> Weights:
    url = f"https://127.0.0.1:{server.server_port}{path}"
    return Weights("model.onnx", url, len(content), hashlib.sha256(content).hexdigest(), "Apache-2.0")


def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path)}


def test_weights_are_fetched_once_and_then_found(tmp_path: Path, server: Server, pem: Path) -> None:
    steps: list[tuple[int, int]] = []
    for _ in range(2):
        path = find_or_fetch(
            weights(server),
            environ=environ(tmp_path),
            progress=lambda done, total: steps.append((done, total)),
            context=trusting(pem),
        )
    assert path == tmp_path / "veilcam" / "models" / "model.onnx"
    assert path.read_bytes() == CONTENT
    assert server.num_requests == 1
    assert steps[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("published", [CONTENT[:-1] + b"!", CONTENT[:-1], CONTENT + b"more"])
def test_a_download_that_is_not_what_was_published_leaves_nothing(
    tmp_path: Path, server: Server, pem: Path, published: bytes
) -> None:
    with pytest.raises(AuthenticationFailed, match=r"model\.onnx: downloaded .* expected"):
        find_or_fetch(weights(server, content=published), environ=environ(tmp_path), context=trusting(pem))
    assert list((tmp_path / "veilcam" / "models").iterdir()) == []


def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path: Path, server: Server, pem: Path) -> None:
    folder = tmp_path / "veilcam" / "models"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"half a mod")
    path = find_or_fetch(weights(server), environ=environ(tmp_path), context=trusting(pem))
    assert path.read_bytes() == CONTENT


def test_a_file_in_the_operators_folder_is_used_as_it_is(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"my own export")
    path = find_or_fetch(weights(server), environ={"VEILCAM_MODEL_DIR": str(tmp_path)})
    assert path.read_bytes() == b"my own export"
    assert server.num_requests == 0
    assert "not the published file" in caplog.text


def test_offline_the_error_says_what_to_do(tmp_path: Path) -> None:
    unreachable = Weights("model.onnx", "https://127.0.0.1:9/model.onnx", 1, "0" * 64, "Apache-2.0")
    with pytest.raises(PeerError) as caught:
        find_or_fetch(unreachable, environ=environ(tmp_path))
    for word in (
        "model.onnx",
        str(tmp_path / "veilcam" / "models"),
        unreachable.url,
        "VEILCAM_MODEL_DIR",
        "'hog'",
    ):
        assert word in str(caught.value)


def test_a_server_that_nobody_vouches_for_is_refused(tmp_path: Path, server: Server) -> None:
    with pytest.raises(PeerError, match="CERTIFICATE_VERIFY_FAILED"):
        find_or_fetch(weights(server), environ=environ(tmp_path))


def test_a_missing_file_on_the_server_is_reported(tmp_path: Path, server: Server, pem: Path) -> None:
    with pytest.raises(PeerError, match="404"):
        find_or_fetch(weights(server, "/gone.onnx"), environ=environ(tmp_path), context=trusting(pem))


def test_plain_http_is_refused_before_and_after_a_redirect(tmp_path: Path, server: Server, pem: Path) -> None:
    plain = Weights("model.onnx", "http://127.0.0.1/model.onnx", 1, "0" * 64, "Apache-2.0")
    with pytest.raises(UsageError, match="expected an https URL"):
        find_or_fetch(plain, environ=environ(tmp_path))
    with pytest.raises(PeerError, match="not https"):
        find_or_fetch(weights(server, "/away.onnx"), environ=environ(tmp_path), context=trusting(pem))


def test_weights_lie_where_the_environment_says(tmp_path: Path) -> None:
    assert model_folder({"VEILCAM_MODEL_DIR": "/m", "XDG_CACHE_HOME": "/c"}) == Path("/m")
    assert model_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/veilcam/models")
    assert model_folder({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/veilcam/models"
    assert model_folder({}) == Path.home() / ".cache/veilcam/models"


def test_every_pinned_file_is_complete() -> None:
    for pinned in WEIGHTS.values():
        assert pinned.url.startswith(
            "https://github.com/Megvii-BaseDetection/YOLOX/releases/download/0.1.1rc0/"
        )
        assert pinned.url.endswith(f"/{pinned.file_name}")
        assert len(bytes.fromhex(pinned.sha256)) == 32
        assert pinned.num_bytes > 3_000_000
