"""Checks on the paths a command was given, made before any work starts."""

from __future__ import annotations

import os
from pathlib import Path

from base.errors import UsageError


def existing_file(path: Path, role: str) -> Path:
    """``path``, which is a regular file that can be read.

    Raises:
        UsageError: it is missing, a folder, a pipe or a device, or not readable.
    """
    if not path.exists():
        raise UsageError(f"{role}: no such file: {path}")
    if path.is_dir():
        raise UsageError(f"{role}: expected a file, got a folder: {path}")
    if not path.is_file():  # opening a pipe could wait for its writer for ever
        raise UsageError(f"{role}: expected a regular file, got a pipe or a device: {path}")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{role}: not readable: {path}")
    return path


def new_file(path: Path, *, force: bool) -> Path:
    """``path``, which may be written: absent or ``force``, in a folder that exists.

    Raises:
        UsageError: it exists already without ``force``, is a folder, or its folder is missing.
        PermissionError: its folder may not be written.
    """
    if path.is_dir():
        raise UsageError(f"output: expected a file name, got a folder: {path}")
    if path.exists() and not force:
        raise UsageError(f"output: {path} exists; choose another name or add --force")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"output: no such folder: {parent}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(13, "folder is not writable", str(parent))
    return path


def different_files(source: Path, target: Path) -> None:
    """Refuse to write over the input, even with ``--force``.

    Raises:
        UsageError: both names are one file.
    """
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError(f"output: {target} is the input; choose another name")
