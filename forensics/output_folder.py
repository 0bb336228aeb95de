"""Where an output grows: a private folder beside it, gone when the output has its name or the work failed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from base.errors import MediaError, UsageError
from base.files import give_name, sync_folder
from forensics.canonical import JsonObject
from forensics.input_file import printable_name
from forensics.report import FileDigest

_BLOCK_BYTES = 1 << 20
_MODE = 0o600  # opened footage is its owner's; sharing it is a decision


class OutputFolder:
    """A folder of mode 0700 beside ``out``. Use as a context manager; whatever is left in it is removed.

    It lies beside the output so that clear pictures reach no other disk, and so that the last
    step is a rename. It is locked while it is in use; folders that a killed process left behind
    are not, and the next output of that name removes them.
    """

    def __init__(self, out: Path) -> None:
        self._parent = out.parent
        self._name = out.name
        self._folder = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
        self._lock = -1

    def __enter__(self) -> Self:
        self._remove_stale()
        try:
            self._folder.mkdir(mode=0o700)
            self._lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"{self._parent}: cannot be written: {error.strerror}"
            raise MediaError(message) from error
        return self

    def _remove_stale(self) -> None:
        left = re.compile(re.escape(f".{self._name}.") + r"[0-9a-f]{8}\.part")
        for path in self._parent.iterdir():
            if not left.fullmatch(path.name):
                continue
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue  # not a folder of ours
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            except BlockingIOError:
                pass  # somebody is at work in it
            finally:
                os.close(descriptor)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)

    def path_for(self, name: str) -> Path:
        """Return where to write what will be called ``name``."""
        return self._folder / name

    def describe(self, path: Path) -> FileDigest:
        """Hash a finished file and make it private."""
        path.chmod(_MODE)
        digest = hashlib.sha256()
        num_bytes = 0
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                num_bytes += len(block)
        return FileDigest(printable_name(path), num_bytes, digest.hexdigest())

    def add_json(self, name: str, document: JsonObject) -> str:
        """Write a document and return its SHA-256."""
        data = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return hashlib.sha256(data).hexdigest()

    def publish(self, targets: Sequence[Path], *, overwrite: bool) -> None:
        """Give the files their names, in this order; on failure none of them has one.

        Raises:
            UsageError: not ``overwrite``, and somebody took one of the names meanwhile.
            MediaError: the disk refuses.
        """
        done: list[Path] = []
        try:
            for target in targets:
                give_name(self._folder / target.name, target, replace=overwrite)
                done.append(target)
            sync_folder(self._parent)
        except FileExistsError as error:
            for target in done:
                target.unlink(missing_ok=True)
            message = f"{error.filename2 or error.filename}: appeared meanwhile; it is left as it is"
            raise UsageError(message) from error
        except OSError as error:
            for target in done:
                target.unlink(missing_ok=True)
            message = f"{self._parent}: cannot be written: {error.strerror}"
            raise MediaError(message) from error
