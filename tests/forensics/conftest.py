"""Recordings that several modules read; nobody writes to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.ledger import Ledger
from tests.forensics.recordings import Recording, authority, camera_key, make_source, seal_copy, write_units


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Six segments of a second; original H.264 with B-frames and AAC, sealed in copy mode."""
    folder = tmp_path_factory.mktemp("recording")
    source = make_source(folder / "source.mp4")
    path = write_units(folder / "protected.mp4", seal_copy(source))
    return Recording(path, source, camera_key().public, authority()[1])


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An empty ledger."""
    return Ledger(tmp_path / "state" / "ledger.jsonl")
