"""The ledger's file: locking, reading its end, appending durably."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from base.errors import PeerError, UsageError
from base.files import sync_folder

LOCK_TIMEOUT_S = 10.0
_RETRY_S = 0.02
_BLOCK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Removed:
    """What was cut off a torn end."""

    num_bytes: int
    sha256: str


class LedgerFile:
    """A locked, open ledger. Use as a context manager; the lock is held inside.

    Writers hold an exclusive lock (`flock`, so threads exclude each other too), readers a
    shared one. The file is created with mode 0600, its folder with 0700.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        self._path = path
        self._writable = writable
        self._descriptor = -1

    def __enter__(self) -> Self:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            self._descriptor = self._open()
            try:
                self._lock(deadline)
                if self._is_current():
                    return self
            except BaseException:
                os.close(self._descriptor)
                raise
            os.close(self._descriptor)  # moved away while we waited: take the file that is there now

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)  # closing releases the lock

    def _open(self) -> int:
        if not self._writable:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        else:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_new = not self._path.exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(self._path, flags, 0o600)
            if is_new:
                sync_folder(self._path.parent)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            message = f"ledger {self._path.name}: not a regular file, so it would not remember anything"
            raise UsageError(message)
        return descriptor

    def _lock(self, deadline: float) -> None:
        mode = fcntl.LOCK_EX if self._writable else fcntl.LOCK_SH
        while True:
            try:
                fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    message = f"ledger {self._path.name}: another process held it for {LOCK_TIMEOUT_S:.0f} s"
                    raise PeerError(message) from error
                time.sleep(_RETRY_S)
            else:
                return

    def _is_current(self) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptor))

    @property
    def num_bytes(self) -> int:
        """Size of the file now."""
        return os.fstat(self._descriptor).st_size

    def read_at(self, offset: int, num_bytes: int) -> bytes:
        """Read up to ``num_bytes`` from ``offset``; fewer only at the end of the file."""
        return os.pread(self._descriptor, num_bytes, offset)

    def lines(self, max_line_bytes: int, start: int = 0) -> Iterator[tuple[bytes, bool]]:
        """Yield every line from ``start`` on without its newline, and True with the last if it has none.

        A line beyond the limit comes out in pieces, none of which is a valid entry.
        """
        rest = b""
        offset = start
        while block := self.read_at(offset, _BLOCK_BYTES):
            offset += len(block)
            *complete, rest = (rest + block).split(b"\n")
            for line in complete:
                yield line, False
            if len(rest) > max_line_bytes:
                yield rest, False
                rest = b""
        if rest:
            yield rest, True

    def read_tail(self, max_line_bytes: int) -> tuple[bytes, bytes]:
        """Return the last complete line and the torn rest behind it, without newlines.

        Both are cut to their last ``max_line_bytes`` + 1 bytes, which no valid entry reaches.
        """
        torn_start = self._torn_start()
        torn = self.read_at(torn_start, min(self.num_bytes - torn_start, max_line_bytes + 1))
        if torn_start == 0:
            return b"", torn
        begin = max(0, torn_start - 1 - (max_line_bytes + 1))
        window = self.read_at(begin, torn_start - 1 - begin)
        return window[window.rfind(b"\n") + 1 :], torn

    def _torn_start(self) -> int:
        """Return the offset right after the last newline."""
        end = self.num_bytes
        while end > 0:
            begin = max(0, end - _BLOCK_BYTES)
            found = self.read_at(begin, end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
        return 0

    def cut_torn(self) -> Removed:
        """Remove what follows the last newline and say what it was."""
        start = self._torn_start()
        digest = hashlib.sha256()
        for offset in range(start, self.num_bytes, _BLOCK_BYTES):
            digest.update(self.read_at(offset, _BLOCK_BYTES))
        removed = Removed(self.num_bytes - start, digest.hexdigest())
        self._truncate(start)
        return removed

    def append(self, data: bytes) -> None:
        """Write ``data`` at the end and force it to the disk; on failure take back what was written."""
        start = self.num_bytes
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
            os.fsync(self._descriptor)
        except OSError:
            self._truncate(start)
            raise

    def _truncate(self, num_bytes: int) -> None:
        os.ftruncate(self._descriptor, num_bytes)
        os.fsync(self._descriptor)
