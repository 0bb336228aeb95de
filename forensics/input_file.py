"""A file under examination: opened once, hashed, read several times, and noticed if it changes meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from base.errors import MediaError
from codec.container import UnitReader, read_access_units
from codec.limits import DEFAULT_LIMITS, Limits
from forensics.report import FileDigest

_BLOCK_BYTES = 1 << 20

Advance = Callable[[float], None]
"""Called with the share done so far, 0 to 1."""


def printable_name(path: Path) -> str:
    """Return a file's name for reports; terminal codes and what is not UTF-8 become question marks."""
    return "".join(character if character.isprintable() else "?" for character in path.name)


class Evidence:
    """A regular file, held open for reading; never written. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            MediaError: it is not there, not readable, or not a regular file.
        """
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            message = f"{path}: {error.strerror}"
            raise MediaError(message) from error
        self._stat = os.fstat(self._descriptor)
        if not stat.S_ISREG(self._stat.st_mode):
            os.close(self._descriptor)
            message = f"{path}: not a regular file"
            raise MediaError(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def describe(self) -> FileDigest:
        """Hash the whole file."""
        digest = hashlib.sha256()
        offset = 0
        while block := os.pread(self._descriptor, _BLOCK_BYTES, offset):
            offset += len(block)
            digest.update(block)
        return FileDigest(printable_name(self.path), offset, digest.hexdigest())

    def units(self, limits: Limits = DEFAULT_LIMITS) -> EvidenceUnits:
        """Read the access units from the start.

        Raises:
            MediaError: not a video that we read.
        """
        return EvidenceUnits(os.dup(self._descriptor), self._stat.st_size, limits, self.path.name)

    def check_unchanged(self) -> None:
        """Make sure that nobody wrote to the file since it was opened.

        Raises:
            MediaError: somebody did.
        """
        now = os.fstat(self._descriptor)
        if (now.st_size, now.st_mtime_ns) != (self._stat.st_size, self._stat.st_mtime_ns):
            message = f"{self.path.name}: changed while it was read"
            raise MediaError(message)


class EvidenceUnits:
    """One reading of the file; `reader` gives the units. Use as a context manager."""

    def __init__(self, descriptor: int, num_bytes: int, limits: Limits, name: str) -> None:
        self._num_bytes = max(num_bytes, 1)
        self._file: BinaryIO = os.fdopen(descriptor, "rb")
        self._file.seek(0)
        try:
            self.reader: UnitReader = read_access_units(self._file, limits)
        except MediaError as error:
            self._file.close()
            message = f"{name}: {error}"
            raise MediaError(message) from error

    @property
    def share(self) -> float:
        """How far reading has come, 0 to 1."""
        return min(self._file.tell() / self._num_bytes, 1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reader.close()
        self._file.close()
