"""The camera's side of the RTSP server: starts the program, feeds it, starts it again when it dies.

The subscription is bounded and skips, so a program that hangs costs units, never the pipeline's time; one
that takes nothing for some seconds is ended and started again.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from base.errors import MediaError, MissingDependency, UsageError
from camera.access import ListenAddress
from camera.broadcast import Broadcast, QueueLimits, WhenFull
from camera.gop_queue import GopQueue
from camera.rtsp.gst_head import HEAD

if TYPE_CHECKING:
    from codec.sealer import SealedUnit

logger = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("gst_serve.py")
QUEUE = QueueLimits(max_units=256, max_bytes=16 * 1024 * 1024)
START_S = 15.0
STALL_S = 8.0
PAUSE_S = 2.0
_TICK_S = 0.5
_PROBE = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"
_PACKAGES = "python3-gi gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-base gstreamer1.0-plugins-good"


@dataclass(frozen=True, slots=True)
class RtspOptions:
    """Where recorders pull from. Beyond loopback a password is needed."""

    listen: ListenAddress
    path: str = "live"
    user: str = "veilcam"
    password: str = field(default="", repr=False)  # empty: nobody is asked
    layer: Literal["protected", "sealed"] = "sealed"
    carrier: Literal["spread", "gop"] = "spread"

    def __post_init__(self) -> None:
        if not self.path or not self.path.isascii() or not self.path.replace("/", "").isalnum():
            message = f"rtsp: path: expected letters and digits, got {self.path!r}"
            raise UsageError(message)
        if not self.password and not self.listen.is_loopback:
            message = (
                f"rtsp: listening on {self.listen.host} lets other machines connect: it needs a password"
            )
            raise UsageError(message)


@dataclass(frozen=True, slots=True)
class RtspState:
    """The server at one moment."""

    url: str
    serving: bool
    restarts: int
    units: int
    error: str


class RtspServer:
    """Serves one camera's stream until closed."""

    def __init__(
        self, options: RtspOptions, broadcast: Broadcast, request_key_frame: Callable[[], None]
    ) -> None:
        """Find the program; nothing is served before ``start``.

        Raises:
            MissingDependency: there is no Python with GStreamer's RTSP server.
        """
        self._options = options
        self._python = find_python()
        self._broadcast = broadcast
        self._request_key_frame = request_key_frame
        subscription = broadcast.subscribe("rtsp", limits=QUEUE, when_full=WhenFull.SKIP)
        self._subscription = subscription
        self._units_in = GopQueue(subscription) if options.carrier == "gop" else subscription
        self._process: subprocess.Popen[bytes] | None = None
        self._bound: subprocess.Popen[bytes] | None = None  # the one that has said it listens
        self._port = options.listen.port
        self._ready = threading.Event()
        self._stop = threading.Event()
        self._busy_since_s: float | None = None
        self._restarts = self._units = 0
        self._error = self._reason = ""
        self._thread = threading.Thread(target=self._run, name="veilcam-rtsp", daemon=True)
        self._watch = threading.Thread(target=self._watch_stalls, name="veilcam-rtsp-watch", daemon=True)

    def start(self) -> None:
        """Bind and serve.

        Raises:
            MediaError: the address cannot be bound.
        """
        self._thread.start()
        self._watch.start()
        deadline_s = time.monotonic() + START_S
        while not self._ready.wait(0.1) and self._thread.is_alive() and time.monotonic() < deadline_s:
            pass
        if not self._ready.is_set():
            reason = self._error or "no answer"
            self.close()
            message = f"rtsp: cannot serve on port {self._options.listen.port}: {reason}"
            raise MediaError(message)

    @property
    def url(self) -> str:
        """Where recorders connect, without user and password."""
        listen = self._options.listen
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        return f"rtsp://{host}:{self._port}/{self._options.path}"

    def close(self) -> bool:
        """End it; True when nothing is left behind."""
        self._stop.set()
        self._broadcast.unsubscribe(self._subscription)
        if self._thread.ident is not None:
            self._thread.join(2.0)
            self._kill()
            self._thread.join(3.0)
            self._watch.join(2.0)
        return not (self._thread.is_alive() or self._watch.is_alive())

    def state(self) -> RtspState:
        """What it does at this moment; safe from any thread."""
        process = self._process
        # One that was started again does not listen yet.
        serving = process is not None and self._bound is process and process.poll() is None
        return RtspState(self.url, serving, self._restarts, self._units, self._error)

    def _run(self) -> None:
        while not self._stop.is_set() and not self._subscription.ended:
            try:
                self._serve()
            except OSError as error:  # the pipe breaks when the program ends; why it did, it may have said
                self._error = self._reason or error.strerror or type(error).__name__
            finally:
                self._busy_since_s = None
            if any((self._stop.is_set(), self._subscription.ended, not self._ready.is_set())):
                break  # what does not start the first time is for the operator to mend
            logger.warning("rtsp: the server ended (%s); starting it again", self._error)
            self._restarts += 1
            self._stop.wait(PAUSE_S)

    def _serve(self) -> None:
        # Its own session: Ctrl-C at the terminal ends the camera, which then ends it.
        with subprocess.Popen(  # noqa: S603  # our own program
            [self._python, "-I", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/tmp")},  # noqa: S108
        ) as process:
            self._process, self._reason = process, ""
            listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
            listener.start()
            try:
                assert process.stdin is not None  # noqa: S101  # a pipe was asked for
                self._feed(process, process.stdin)
            finally:
                if process.stdin is not None:
                    with suppress(OSError):
                        process.stdin.close()
                try:
                    process.wait(1.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                listener.join(2.0)
                if process.wait() == 3:
                    self._reason = self._error = "the address is in use"

    def _feed(self, process: subprocess.Popen[bytes], pipe: IO[bytes]) -> None:
        options = self._options
        settings = {
            "host": options.listen.host,
            "port": self._port,
            "path": options.path,
            "user": options.user if options.password else "",
            "password": options.password,
        }
        self._write(pipe, json.dumps(settings).encode() + b"\n")
        self._units_in.skip_to_next_start()
        while not self._stop.is_set() and process.poll() is None:
            unit = self._units_in.get(_TICK_S)
            if unit is None:
                if self._subscription.ended:
                    return
                continue
            self._write(pipe, self._frame(unit))
            self._units += 1

    def _frame(self, unit: SealedUnit) -> bytes:
        shown = unit.unit if self._options.layer == "sealed" else unit.unit.without_sealed()
        data = shown.annexb()
        return HEAD.pack(len(data), max(0, shown.pts_us), shown.is_keyframe) + data

    def _write(self, pipe: IO[bytes], data: bytes) -> None:
        self._busy_since_s = time.monotonic()
        view = memoryview(data)
        while view:
            view = view[pipe.write(view) :]
        self._busy_since_s = None

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            if line.startswith(b"ready "):
                self._port = int(line[6:])
                self._error = ""
                self._bound = process
                self._ready.set()
            elif line.strip() == b"key":
                self._request_key_frame()

    def _watch_stalls(self) -> None:
        while not self._stop.wait(_TICK_S) and self._thread.is_alive():
            since_s = self._busy_since_s
            if since_s is not None and time.monotonic() - since_s > STALL_S:
                self._error = f"took nothing for {STALL_S:.0f} s"
                self._kill()

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()


@cache
def find_python() -> str:
    """A Python that has PyGObject and GStreamer's RTSP server: this one, or the system's.

    Raises:
        MissingDependency: none has.
    """
    for python in (sys.executable, "/usr/bin/python3"):
        if not Path(python).exists():
            continue
        done = subprocess.run(  # noqa: S603  # a fixed program
            [python, "-I", "-c", _PROBE], capture_output=True, check=False, timeout=30
        )
        if done.returncode == 0:
            return python
    message = f"rtsp: needs GStreamer's RTSP server for Python; on Debian: apt install {_PACKAGES}"
    raise MissingDependency(message)
