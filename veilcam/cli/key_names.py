"""Where new key files go, and what is noted about them in the ledger."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from base.canonical import JsonValue
from base.errors import UsageError, VeilError
from keys.names import checked_name

if TYPE_CHECKING:
    from keys.camera import CameraKey
    from keys.tpm import SealedCamera

_NUMBERED = re.compile(r"(.*)-([1-9][0-9]{0,5})")


def place(name: str, *suffixes: str) -> tuple[Path, str]:
    """Folder and bare name; refuses early what would fail after the passphrase was typed.

    Raises:
        UsageError: not a name, no such folder, or a file of that name exists.
    """
    path = Path(name)
    stem = checked_name(path.name)
    if not path.parent.is_dir():
        raise UsageError(f"NAME: no such folder: {path.parent}")
    for suffix in suffixes:
        target = path.parent / f"{stem}.{suffix}"
        if os.path.lexists(target):
            raise UsageError(f"{target} exists already; keys are not overwritten, choose another name")
    return path.parent, stem


def next_name(folder: Path, name: str, *suffixes: str) -> str:
    """``custody`` to ``custody-2`` to ``custody-3``: the first that no file has."""
    match = _NUMBERED.fullmatch(name)
    base, number = (match[1], int(match[2])) if match else (name, 1)
    while True:
        number += 1
        if not any(os.path.lexists(folder / f"{base}-{number}.{suffix}") for suffix in suffixes):
            return checked_name(f"{base}-{number}")


def note(action: str, facts: Mapping[str, JsonValue], *, kind: str = "KEY_USED") -> int:
    """Write to the ledger that a key is used or changed; comes before it happens. Returns the entry's number.

    Raises:
        VeilError: the entry cannot be written; then it must not happen.
    """
    from forensics.ledger import Ledger, default_ledger_path
    from forensics.ledger_entry import EventKind
    from forensics.opening import operator

    ledger = Ledger(default_ledger_path())
    try:
        return ledger.append(EventKind[kind], {"action": action, "who": operator(), **facts}).seq
    except OSError as error:
        message = f"ledger {ledger.path}: cannot be written ({error.strerror}); nothing was done"
        raise VeilError(message) from error


def moment_us(text: str, option: str) -> int:
    """Read an ISO 8601 time with a zone as Unix microseconds.

    Raises:
        UsageError: it is none.
    """
    from forensics.selection import parse_time

    point = parse_time(text)
    if not point.is_absolute:
        raise UsageError(f"{option}: expected a time such as 2026-12-01T00:00:00Z, got {text}")
    return point.micros


def draw_camera(name: str, *, is_sealed: bool, pcrs: str | None = None) -> CameraKey | SealedCamera:
    """A fresh camera key, sealed to this machine's TPM if ``is_sealed``; raises as `keys.tpm.seal_camera`."""
    from keys.camera import CameraKey
    from keys.tpm import seal_camera

    return seal_camera(name, pcrs) if is_sealed else CameraKey.generate(name)


def save_new_camera(folder: Path, camera: CameraKey | SealedCamera) -> tuple[Path, Path]:
    """Write NAME.camera and NAME.pub.

    Raises:
        UsageError: one of them exists.
    """
    from keys.camera import CameraKey
    from keys.store import save_camera, save_camera_public, save_sealed_camera

    if isinstance(camera, CameraKey):
        private = save_camera(folder, camera)
    else:
        private = save_sealed_camera(folder, camera)
    return private, save_camera_public(folder, camera.public)


def now_us() -> int:
    """The system's time in Unix microseconds."""
    return time.time_ns() // 1000


def asker() -> str:
    """User and host, for requests and records."""
    from forensics.opening import operator

    who = operator()
    return f"{who['user'] or who['uid']}@{who['host']}"
