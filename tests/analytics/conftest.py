"""Fixtures for these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analytics.foreign_server import ForeignServer, triton
from tests.support.authority import make_certificate, openssl

EXTENSIONS = "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n"


@pytest.fixture(scope="session")
def foreign_triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignServer]:
    """A real Triton with tiny_yolox.onnx as ``yolox`` (any size) and ``yolox-64``."""
    with triton(tmp_path_factory.mktemp("triton")) as server:
        yield server


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """worker.pem and client.pem with keys under one root.pem; stranger/client.pem under another."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificate(folder, "worker", "/CN=worker", EXTENSIONS)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", *key, "-keyout", folder / "client.key", "-out", folder / "client.csr", "-subj", "/CN=gate")
    by = ("-CA", folder / "root.pem", "-CAkey", folder / "root.key", "-CAcreateserial")
    openssl("x509", "-req", "-in", folder / "client.csr", *by, "-days", "20", "-out", folder / "client.pem")
    (folder / "stranger").mkdir()
    make_certificate(folder / "stranger", "client", "/CN=gate", EXTENSIONS)
    return folder
