"""Files that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from base.errors import LimitExceeded, UsageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_file(path: Path, *, mode: int = 0o644, replace: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary neighbour of ``path`` for writing; rename it to ``path`` on success.

    The content reaches the disk (fsync of file and folder) before the name does. On
    any error the temporary file is removed and ``path`` is left as it was.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        give_name(temporary, path, replace=replace)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None and error.errno in _FULL:
            error.filename = str(path)  # a failed write does not tell it
        raise
    sync_folder(path.parent)


def atomic_write(path: Path, data: bytes, *, mode: int = 0o644, replace: bool = True) -> None:
    """Write ``data`` to ``path`` so that a reader or a power cut never sees a part of it.

    Raises:
        FileExistsError: not ``replace``, and the name is taken.
    """
    with atomic_file(path, mode=mode, replace=replace) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Make renames inside ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def give_name(temporary: Path, path: Path, *, replace: bool) -> None:
    """Rename a finished file; without ``replace`` only if nothing has the name, whoever else tries at once.

    Raises:
        FileExistsError: something has it.
        OSError: the disk refuses.
    """
    if replace:
        temporary.replace(path)
        return
    try:
        path.hardlink_to(temporary)  # the one call that names a file and never takes a name away
    except FileExistsError:
        raise
    except OSError:  # USB sticks (FAT) have no links: then two at once can still meet
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.replace(path)
    else:
        temporary.unlink()


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; never waits, as opening a pipe without a writer would.

    Raises:
        UsageError: it is something else: a folder, a pipe, a device.
        OSError: it is missing or not readable.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    # Asked of the open file, not of the name, which somebody could swap in between.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        message = f"{path.name}: not a regular file"
        raise UsageError(message)
    with os.fdopen(descriptor, "rb") as file:
        yield file


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Read a whole regular file of at most ``max_bytes``.

    Raises:
        LimitExceeded: the file is longer.
        UsageError: it is no regular file.
    """
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        message = f"{path.name}: longer than the limit of {max_bytes} bytes"
        raise LimitExceeded(message)
    return data
