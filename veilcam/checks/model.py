"""The networks: are the weights what their card says, what runs them, how fast."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np

from base.errors import VeilError
from base.frames import ClearFrame
from veilcam.checks.finding import Finding, Status

_GROUP = "networks"
_TIMED_HW = (720, 1280)
_TIMED_FRAMES = 5


def check_weights(folder: Path | None = None) -> list[Finding]:
    """Whether every file of weights has the hash that its card (JSON beside it) records."""
    from models.card import WEIGHTS

    folder = folder or WEIGHTS
    cards = sorted(folder.glob("*.json"))
    if not cards:
        return [Finding(_GROUP, "weights", Status.BROKEN, f"no card (*.json) in {folder}")]
    return [finding for card in cards for finding in _check_card(card)]


def _check_card(path: Path) -> list[Finding]:
    from models.card import read_card

    try:
        files = read_card(path).files
    except (OSError, VeilError) as error:
        return [Finding(_GROUP, path.name, Status.BROKEN, str(error))]
    return [_check_file(path.parent / name, expected) for name, expected in sorted(files.items())]


def _check_file(path: Path, expected: str) -> Finding:
    if not path.is_file():
        return Finding(_GROUP, path.name, Status.BROKEN, f"named by its card, missing in {path.parent}")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != expected:
        detail = f"sha256 is {digest[:16]}..., the card says {expected[:16]}..."
        return Finding(_GROUP, path.name, Status.BROKEN, detail)
    size = f"{path.stat().st_size / 1e6:.2f} MB"
    return Finding(_GROUP, path.name, Status.OK, f"{size}, sha256 {digest[:16]}... as on its card")


def check_protector() -> list[Finding]:
    """Whether the protector runs here, on which backend, and how long a 720p frame takes."""
    from models import load_protector

    height, width = _TIMED_HW
    try:
        protector = load_protector()
        frame = ClearFrame(
            np.full((height, width), 110, np.uint8),
            np.full((height // 2, width // 2), 128, np.uint8),
            np.full((height // 2, width // 2), 128, np.uint8),
            0,
        )
        protector.protect(frame)  # the first call allocates
        started = time.perf_counter()
        for _ in range(_TIMED_FRAMES):
            protector.protect(frame)
        took_ms = (time.perf_counter() - started) * 1000 / _TIMED_FRAMES
    except Exception as error:  # whatever the run-time raises is what the report must say
        return [Finding(_GROUP, "protector", Status.BROKEN, str(error))]
    detail = f"model {protector.model_id.hex()} on {protector.backend}: {took_ms:.0f} ms at {width}x{height}"
    return [Finding(_GROUP, "protector", Status.OK, detail)]


def check_detectors() -> list[Finding]:
    """Which detectors are ready without a download."""
    from analytics.weights import WEIGHTS, file_sha256, model_folder

    folder = model_folder()
    findings = [Finding(_GROUP, "detector hog", Status.OK, "built in")]
    weights = WEIGHTS["yolox"]
    path = folder / weights.file_name
    if not path.is_file():
        detail = f"weights not in {folder}; fetched on first use of --detector yolox"
        findings.append(Finding(_GROUP, "detector yolox", Status.NOTE, detail))
    elif file_sha256(path) != weights.sha256:
        findings.append(Finding(_GROUP, "detector yolox", Status.NOTE, f"{path} is not the published file"))
    else:
        findings.append(Finding(_GROUP, "detector yolox", Status.OK, f"{path}, sha256 as published"))
    return findings
