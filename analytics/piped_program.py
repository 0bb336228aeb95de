"""A program at the other end of a pipe, ended together with what uses it."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import BinaryIO, Self, cast

_END_S = 3.0


class PipedProgram:
    """A running process and the pipe to it. Use as a context manager; leaving it ends the process."""

    def __init__(self, process: subprocess.Popen[bytes], *, sends: bool) -> None:
        """Take over ``process``; with ``sends`` the pipe is its input, else its output."""
        self._process = process
        self.pipe = cast(BinaryIO, process.stdin if sends else process.stdout)

    def kill(self) -> None:
        """End it at once; whoever is blocked in the pipe gets an error or the end. Any thread."""
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
