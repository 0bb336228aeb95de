"""How key files are written: never a private one over another; public ones again with the same content."""

from __future__ import annotations

import os
from pathlib import Path

from base.errors import UsageError
from base.files import atomic_write, read_bounded
from keys import textfile

PRIVATE_MODE = 0o600


def write_public(path: Path, data: bytes) -> Path:
    """Write a public file; the same content again is fine.

    Raises:
        UsageError: the file exists and holds something else.
    """
    if path.exists() and read_bounded(path, textfile.MAX_FILE_BYTES) != data:
        message = f"{path.name}: exists already with another content"
        raise UsageError(message)
    atomic_write(path, data)
    return path


def refuse_existing(path: Path) -> None:
    """Return if nothing has this name.

    Raises:
        UsageError: something has.
    """
    if os.path.lexists(path):
        message = f"{path.name}: exists already; private keys are not overwritten"
        raise UsageError(message)


def write_private(path: Path, data: bytes) -> Path:
    """Write a private file, mode 0600; it appears whole or not at all.

    Raises:
        UsageError: the file exists.
    """
    try:
        atomic_write(path, data, mode=PRIVATE_MODE, replace=False)
    except FileExistsError:
        refuse_existing(path)
        raise
    return path
