"""Edge workers as processes of this machine."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from base.errors import PeerError

START_S = 60.0
STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """How a worker is started.

    Attributes:
        detector: as ``veilcam worker --detector`` takes it.
        listen: address; port 0 takes a free one; None says nothing about it.
        prefix: what its command line begins with (``ip netns exec NAME``).
        more: further options of ``veilcam worker``.
        environment: added to ours.
        module: another program than ``veilcam worker`` that says the same when it is ready.
    """

    detector: str = "hog"
    listen: str | None = "127.0.0.1:0"
    prefix: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    module: str | None = None


class WorkerProcess:
    """One ``veilcam worker``. Ends with the block it is used in."""

    def __init__(self, options: ProcessOptions) -> None:
        """Start it; ``wait`` tells when it can be used."""
        program = ("veilcam", "worker", "--json") if options.module is None else (options.module,)
        listen = () if options.listen is None else ("--listen", options.listen)
        command = [
            *options.prefix,
            *(sys.executable, "-m", *program, *listen, "--detector", options.detector, *options.more),
        ]
        single = {"OMP_NUM_THREADS": "1", "OPENCV_FOR_THREADS_NUM": "1"}
        self.url = ""
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, **single, "PYTHONPATH": _paths(), **(options.environment or {})},
            start_new_session=True,  # Ctrl-C is for us: we end it in order
        )

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._process.pid

    def wait(self, timeout_s: float = START_S) -> str:
        """The worker's URL, once it is ready.

        Raises:
            PeerError: it ended instead, or is not ready in time.
        """
        line = _line_of(self._process.stdout, time.monotonic() + timeout_s)
        try:
            ready = json.loads(line or "null")
        except ValueError:
            ready = None
        if not isinstance(ready, dict) or ready.get("event") != "ready":
            self.stop()
            message = "worker: it did not become ready; what it said is above"
            raise PeerError(message)
        self.url = str(ready["url"]).rstrip("/")
        return self.url

    def stop(self) -> None:
        """End it; harmless when it has ended."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class WorkerProcesses:
    """Several of them, started side by side. A context manager."""

    def __init__(self, options: Sequence[ProcessOptions]) -> None:
        self._options = options
        self.processes: list[WorkerProcess] = []

    @property
    def urls(self) -> list[str]:
        """Of the workers, in their order."""
        return [process.url for process in self.processes]

    def __enter__(self) -> Self:
        """Start all and wait until they are ready.

        Raises:
            PeerError: one does not become ready.
        """
        try:
            self.processes = [WorkerProcess(options) for options in self._options]
            for process in self.processes:
                process.wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.stop()


def _paths() -> str:
    """Where our own packages are, before whatever was set: a checkout that is not installed works, too."""
    return os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))


def _line_of(stream: IO[bytes] | None, until_s: float) -> str:
    """The first line, or "" at the end of the stream or of the time."""
    assert stream is not None  # noqa: S101  # a pipe was asked for; for the type checker
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while b"\n" not in data and (left_s := until_s - time.monotonic()) > 0:
            if not selector.select(left_s):
                break
            chunk = os.read(stream.fileno(), 65536)
            if not chunk:
                break
            data += chunk
    return data.decode(errors="replace").partition("\n")[0]
