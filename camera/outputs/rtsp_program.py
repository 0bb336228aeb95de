"""RTSP by way of a process of its own; see camera/outputs/rtsp_child.py."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from typing import BinaryIO, Self, cast

_END_S = 3.0
_MAX_REASON_BYTES = 400


class RtspProgram:
    """A running publisher and the pipe to it. Use as a context manager; leaving it ends the process."""

    def __init__(self, url: str) -> None:
        """Start it; whether the server answers is known when bytes flow."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "camera.outputs.rtsp_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.pipe = cast(BinaryIO, self._process.stdin)
        self.reason = ""
        # What it says must be read while it runs: a full pipe would stop it.
        self._listener = threading.Thread(target=self._listen, name="veilcam-rtsp-reason", daemon=True)
        self._listener.start()
        with suppress(OSError):
            self.pipe.write(url.encode() + b"\n")

    def kill(self) -> None:
        """End it at once; whoever is blocked in the pipe gets an error. Any thread."""
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
        self._listener.join()

    def _listen(self) -> None:
        said = cast(BinaryIO, self._process.stderr)
        with said:
            for line in said:
                self.reason = line[:_MAX_REASON_BYTES].decode(errors="replace").strip()
