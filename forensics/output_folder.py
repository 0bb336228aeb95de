"""Where an output grows: a private folder beside it, gone when the output has its name or the work failed."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from base.errors import MediaError
from base.files import sync_folder
from forensics.canonical import JsonObject
from forensics.decode_report import OutputFile

_BLOCK_BYTES = 1 << 20
_MODE = 0o600  # opened footage is its owner's; sharing it is a decision


class OutputFolder:
    """A folder of mode 0700 beside ``out``. Use as a context manager; whatever is left in it is removed.

    It lies beside the output so that clear pictures reach no other disk, and so that the last
    step is a rename.
    """

    def __init__(self, out: Path) -> None:
        self._parent = out.parent
        self._folder = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(mode=0o700)
        except OSError as error:
            message = f"{self._parent}: cannot be written: {error.strerror}"
            raise MediaError(message) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def path_for(self, name: str) -> Path:
        """Return where to write what will be called ``name``."""
        return self._folder / name

    def describe(self, path: Path) -> OutputFile:
        """Hash a finished file and make it private."""
        path.chmod(_MODE)
        digest = hashlib.sha256()
        num_bytes = 0
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                num_bytes += len(block)
        return OutputFile(path.name, num_bytes, digest.hexdigest())

    def add_json(self, name: str, document: JsonObject) -> str:
        """Write a document and return its SHA-256."""
        data = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return hashlib.sha256(data).hexdigest()

    def publish(self, targets: Sequence[Path]) -> None:
        """Give the files their names, in this order; on failure none of them has one."""
        done: list[Path] = []
        try:
            for target in targets:
                (self._folder / target.name).replace(target)
                done.append(target)
            sync_folder(self._parent)
        except OSError as error:
            for target in done:
                target.unlink(missing_ok=True)
            message = f"{self._parent}: cannot be written: {error.strerror}"
            raise MediaError(message) from error
