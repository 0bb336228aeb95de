"""Which recordings have to go: the oldest finished ones, by age and by total size."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

SUFFIX = ".mp4"


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Limits on one camera's recordings; None means no limit."""

    max_age_s: float | None = None  # since the last picture of a file
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """One finished file."""

    path: Path
    ended_s: float  # Unix seconds of its last write
    num_bytes: int


def list_recordings(folder: Path) -> list[Recording]:
    """The finished files below a camera's folder, oldest first. Open ones (``.part``) are not among them."""
    found = []
    for path in folder.rglob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):
            stat = path.stat()
            found.append(Recording(path, stat.st_mtime, stat.st_size))
    return sorted(found, key=lambda recording: (recording.ended_s, recording.path))


def expired(recordings: Iterable[Recording], rules: RetentionRules, now_s: float) -> list[Recording]:
    """Those that the rules give up. Pure.

    Args:
        recordings: oldest first.
        rules: both limits apply.
        now_s: Unix seconds.
    """
    remaining = list(recordings)
    gone = []
    total = sum(recording.num_bytes for recording in remaining)
    for recording in remaining:
        too_old = rules.max_age_s is not None and now_s - recording.ended_s > rules.max_age_s
        too_much = rules.max_bytes is not None and total > rules.max_bytes
        if too_old or too_much:
            gone.append(recording)
            total -= recording.num_bytes
    return gone


def apply_retention(folder: Path, rules: RetentionRules, now_s: float | None = None) -> int:
    """Delete what the rules give up, and folders that become empty; returns the number of files.

    A file that cannot be deleted is logged and left: the next round tries again.
    """
    if rules.max_age_s is None and rules.max_bytes is None:
        return 0
    deleted = 0
    for recording in expired(list_recordings(folder), rules, time.time() if now_s is None else now_s):
        try:
            recording.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("retention: cannot delete %s: %s", recording.path.name, error.strerror)
            continue
        deleted += 1
        logger.info("retention: deleted %s (%d bytes)", recording.path.name, recording.num_bytes)
        if recording.path.parent != folder:
            with contextlib.suppress(OSError):
                recording.path.parent.rmdir()
    return deleted
