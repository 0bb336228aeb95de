"""Fixtures for these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.analytics.foreign_server import ForeignServer, triton


@pytest.fixture(scope="session")
def foreign_triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignServer]:
    """A real Triton with tiny_yolox.onnx as ``yolox`` (any size) and ``yolox-64``."""
    with triton(tmp_path_factory.mktemp("triton")) as server:
        yield server
