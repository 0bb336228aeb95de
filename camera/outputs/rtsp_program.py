"""RTSP by way of a process of its own; see camera/outputs/rtsp_child.py."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from analytics.piped_program import PipedProgram

PROGRAM = Path(__file__).with_name("rtsp_child.py")
_MAX_REASON_BYTES = 400


class RtspProgram(PipedProgram):
    """A running publisher; ``reason`` is what it said last."""

    def __init__(self, url: str) -> None:
        """Start it; whether the server answers is known when bytes flow."""
        process = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-I", str(PROGRAM)],  # alone: importing the camera takes a second of computing
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        super().__init__(process, sends=True)
        self.reason = ""
        # What it says must be read while it runs: a full pipe would stop it.
        self._listener = threading.Thread(target=self._listen, name="veilcam-rtsp-reason", daemon=True)
        self._listener.start()
        with suppress(OSError):
            self.pipe.write(url.encode() + b"\n")

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._listener.join()

    def _listen(self) -> None:
        said = cast(BinaryIO, self._process.stderr)
        with said:
            for line in said:
                self.reason = line[:_MAX_REASON_BYTES].decode(errors="replace").strip()
