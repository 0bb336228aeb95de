"""SRT by way of the ffmpeg program: PyAV's wheels are built without libsrt.

The program only carries an MPEG transport stream between a pipe and the network (``-c copy``); what is in it
passes unchanged. Its command line, and so a passphrase in the URL, can be seen by other users of the machine.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from typing import BinaryIO, Self, cast

from base.errors import MissingDependency

_QUIET = ("-hide_banner", "-loglevel", "error")
_END_S = 3.0


class SrtProgram:
    """A running ffmpeg and the pipe to it. Use as a context manager; leaving it ends the program."""

    def __init__(self, url: str, *, sends: bool) -> None:
        """Start it; whether the other side answers is known when bytes flow.

        Raises:
            MissingDependency: there is no ffmpeg.
        """
        program = shutil.which("ffmpeg")
        if program is None:
            message = "SRT: needs the ffmpeg program (this build of PyAV has no SRT); install ffmpeg"
            raise MissingDependency(message)
        if sends:
            way = ["-f", "mpegts", "-probesize", "500000", "-i", "pipe:0", "-c", "copy", "-f", "mpegts", url]
        else:
            way = ["-probesize", "500000", "-i", url, "-c", "copy", "-flush_packets", "1"]
            way += ["-f", "mpegts", "pipe:1"]
        command = [program, *_QUIET, *way]
        self._process = subprocess.Popen(  # noqa: S603  # no shell; the URL is the operator's own
            command,
            stdin=subprocess.PIPE if sends else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if sends else subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        pipe = self._process.stdin if sends else self._process.stdout
        self.pipe = cast(BinaryIO, pipe)

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
