"""The folder of a case: where everything goes, the copy in native format, and what was written when.

    FOLDER/
      native/NAME            the recording as it was handed over, copied and hashed before anything is opened
      video/NAME.mkv         its original, and NAME.mkv.report.json
      verification/NAME.txt  the verdict with the evidence for every segment
      report.html, report.json
      SHA256SUMS             of all of them; `sha256sum -c` checks it
      SHA256SUMS.tsr         an RFC 3161 time stamp over it, where one was asked for
      .work/                 what a later run goes on from; not part of the evidence

Sources are opened for reading only. Files get mode 0600, folders 0700.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import MediaError, UsageError
from base.files import atomic_file, atomic_write
from forensics.canonical import JsonObject
from forensics.input_file import Advance, Evidence
from forensics.report import FileDigest
from forensics.selection import iso_time

FOLDERS = ("native", "video", "verification", ".work")
SUMS = "SHA256SUMS"
STAMP = "SHA256SUMS.tsr"
_MODE = 0o600
_BLOCK_BYTES = 1 << 20
_SPARE_BYTES = 64 << 20
_MAX_STATE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done to a file: a line of the chain of custody.

    Attributes:
        time_us: Unix microseconds when it was finished.
        what: acquired, copied, verified, opened, decoded, not opened, ...
        name: the file, relative to the case's folder, or the source's path.
        sha256: of the file after the step; None where there is none.
    """

    time_us: int
    what: str
    name: str
    sha256: str | None = None
    detail: str = ""

    @classmethod
    def now(cls, what: str, name: str, sha256: str | None = None, detail: str = "") -> Step:
        """A step that was finished just now."""
        return cls(time.time_ns() // 1000, what, name, sha256, detail)

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "time": iso_time(self.time_us),
            "what": self.what,
            "name": self.name,
            "sha256": self.sha256,
            "detail": self.detail,
        }


class CaseFolder:
    """The folder of one case. Many processes may write to it, one item each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Make the folders.

        Raises:
            UsageError: something else is there.
            MediaError: the disk refuses.
        """
        if self.path.exists() and (not self.path.is_dir() or self._is_foreign()):
            message = f"{self.path}: exists and is not the folder of a case"
            raise UsageError(message)
        try:
            for name in FOLDERS:
                (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            message = f"{self.path}: cannot be created: {error.strerror}"
            raise MediaError(message) from error

    def _is_foreign(self) -> bool:
        """Not empty and not ours. Links are foreign: what is behind them would be written and removed."""
        parts = [self.path / name for name in FOLDERS]
        if any(part.is_symlink() or (part.exists() and not part.is_dir()) for part in parts):
            return True
        return any(self.path.iterdir()) and not (self.path / ".work").is_dir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out; removes what a killed one left behind.

        Raises:
            UsageError: another run is at work in the folder.
        """
        descriptor = os.open(self.path / ".work" / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"{self.path}: another run is at work in this folder"
                raise UsageError(message) from None
            self._sweep()
            yield
        finally:
            os.close(descriptor)

    def _sweep(self) -> None:
        """Remove half-written files and folders: while the lock is ours, nobody else can be writing them."""
        left = re.compile(r"\..+\.[0-9a-f]{8}\.part")
        for name in FOLDERS:
            for path in (self.path / name).iterdir():
                if left.fullmatch(path.name):
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink(missing_ok=True)

    def relative(self, path: Path) -> str:
        """A file's name within the case."""
        return path.relative_to(self.path).as_posix()

    def write(self, name: str, data: bytes) -> FileDigest:
        """Write a file; it appears whole or not at all."""
        path = self.path / name
        atomic_write(path, data, mode=_MODE)
        return FileDigest(name, len(data), hashlib.sha256(data).hexdigest())

    def save_state(self, name: str, state: JsonObject) -> None:
        """Remember something for a later run."""
        self.write(f".work/{name}.json", json.dumps(state).encode())

    def state(self, name: str) -> dict[str, Any] | None:
        """What an earlier run remembered; None if there is nothing usable."""
        path = self.path / ".work" / f"{name}.json"
        try:
            if path.stat().st_size > _MAX_STATE_BYTES:
                return None
            value = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def files(self) -> list[Path]:
        """All files of the evidence, without the list of sums and its time stamp, sorted."""
        found = [
            path
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path.relative_to(self.path).parts[0] != ".work"
        ]
        return [path for path in found if path.name not in (SUMS, STAMP) or path.parent != self.path]

    def oddities(self) -> list[str]:
        """Names of what is neither a file nor a folder of the case's own: links, pipes, devices."""
        everything = (
            path for path in sorted(self.path.rglob("*")) if path.parts[len(self.path.parts)] != ".work"
        )
        odd = (path for path in everything if path.is_symlink() or not (path.is_file() or path.is_dir()))
        return [self.relative(path) for path in odd]

    def sums(self, known: dict[str, str] | None = None) -> bytes:
        """The content of SHA256SUMS; ``known`` saves hashing again what was hashed by this run."""
        known = known or {}
        lines = []
        for path in self.files():
            name = self.relative(path)
            lines.append(f"{known.get(name) or describe(path).sha256}  {name}\n")
        return "".join(lines).encode()


def describe(path: Path) -> FileDigest:
    """Size and SHA-256 of a file.

    Raises:
        MediaError: it cannot be read.
    """
    with Evidence(path) as evidence:
        return evidence.describe()


def acquire(source: Path, target: Path, advance: Advance | None = None) -> tuple[FileDigest, tuple[int, int]]:
    """Copy a recording bit for bit, hash it on the way, read the copy again, and compare.

    The source is opened for reading, and its access time is left alone where the system allows.

    Returns:
        The source's digest, and its size and modification time (ns), from which a later run knows it again.

    Raises:
        MediaError: the source cannot be read, or changes meanwhile; the disk is full; the copy differs.
    """
    descriptor = _open_source(source)
    digest = hashlib.sha256()
    num_bytes = 0
    with os.fdopen(descriptor, "rb") as file:
        before = os.fstat(file.fileno())
        _check_space(target, before.st_size)
        try:
            with atomic_file(target, mode=_MODE) as copy:
                while num_bytes <= before.st_size and (block := file.read(_BLOCK_BYTES)):
                    digest.update(block)
                    copy.write(block)
                    num_bytes += len(block)
                    if advance is not None:
                        advance(min(num_bytes / max(before.st_size, 1), 1.0))
                _check_same(source, before, os.fstat(file.fileno()), num_bytes)
        except OSError as error:
            message = f"{source.name}: cannot be copied: {error.strerror}"
            raise MediaError(message) from error
    described = FileDigest(source.name, num_bytes, digest.hexdigest())
    if describe(target).sha256 != described.sha256:
        target.unlink(missing_ok=True)
        message = f"{source.name}: its copy reads back differently; is the disk failing?"
        raise MediaError(message)
    return described, (before.st_size, before.st_mtime_ns)


def _open_source(source: Path) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        if not source.is_file():
            message = f"{source}: not a regular file, or gone"
            raise MediaError(message)
        try:
            return os.open(source, flags | os.O_NOATIME)
        except PermissionError:  # only the owner may ask for that
            return os.open(source, flags)
    except OSError as error:
        message = f"{source}: {error.strerror}"
        raise MediaError(message) from error


def _check_space(target: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if free < num_bytes + _SPARE_BYTES:
        message = f"{target.parent}: {free >> 20} MiB free, the copy needs {(num_bytes + _SPARE_BYTES) >> 20}"
        raise MediaError(message)


def _check_same(source: Path, before: os.stat_result, after: os.stat_result, num_bytes: int) -> None:
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    if not same or num_bytes != before.st_size:
        message = f"{source.name}: changed while it was copied ({before.st_size} bytes, then {after.st_size})"
        raise MediaError(message)
