"""The live step: the camera as a process of its own, and a subscriber that receives it over WebRTC."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from veilcam.demo.commands import DemoError
from veilcam.demo.steps import Facts, Stage

_START_S = 60.0
_STOP_S = 20.0
_FIRST_PICTURE_S = 20.0


@dataclass(slots=True)
class RunningCamera:
    """A `veilcam camera run` that is up."""

    process: subprocess.Popen[str]
    page_url: str
    whep_url: str

    def stop(self) -> int:
        """Ask it to end in order, as Ctrl-C would; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@contextmanager
def running_camera(stage: Stage, listen: str) -> Iterator[RunningCamera]:
    """Start the camera on the source, looped in real time; stop it at the end of the block.

    Raises:
        DemoError: it did not come up.
    """
    arguments = [
        "camera",
        "run",
        "--source",
        str(stage.source),
        "--loop",
        "--recipient",
        "keys/custodian.recipient",
        "--camera",
        "keys/camera.camera",
        "--listen",
        listen,
        "--record",
        stage.folder.relative(stage.folder.recordings),
    ]
    stage.commands.say("  $ veilcam " + " ".join(arguments))
    process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
        stage.commands.argv(*arguments),
        cwd=stage.folder.root,
        env=stage.commands.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches the demonstration, which then stops the camera in order
    )
    camera = RunningCamera(process, "", "")
    try:
        ready = _await_ready(process)
        camera.page_url, camera.whep_url = str(ready["url"]), str(ready["whep"])
        _await_pictures(camera)
        yield camera
    finally:
        camera.stop()


def _await_ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    lines: queue.Queue[str | None] = queue.Queue()
    errors: list[str] = []
    if process.stdout is None or process.stderr is None:
        raise DemoError("camera run: started without pipes")
    threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
    threading.Thread(target=errors.extend, args=(process.stderr,), daemon=True).start()
    deadline = time.monotonic() + _START_S
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            line = lines.get(timeout=left_s)
        except queue.Empty:
            break
        if line is None:
            process.wait(_STOP_S)
            raise DemoError(
                f"camera run: ended with status {process.returncode}\n{''.join(errors[-3:]).strip()}"
            )
        event = json.loads(line)
        if event.get("event") == "ready":
            return dict(event)
    raise DemoError(f"camera run: not ready after {_START_S:.0f} s")


def _await_pictures(camera: RunningCamera) -> None:
    """Wait until the camera says that it is live: who subscribes before the first picture is refused."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and camera.process.poll() is None:
        try:
            url = f"{camera.page_url}api/v1/state"
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  # our own http URL
                if json.load(answer)["live"]:
                    return
        except OSError:
            pass  # it has hardly started
        time.sleep(0.1)
    raise DemoError("camera run: no picture came")


def _pump(pipe: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in pipe:
        lines.put(line)
    lines.put(None)


def watch(camera: RunningCamera, seconds: float) -> Facts:
    """Subscribe over WHEP for ``seconds`` after the first picture, and say what arrived.

    Raises:
        DemoError: no picture came.
        PeerError: the session failed.
    """
    from analytics.stream import open_frames

    started = time.monotonic()
    first = last = 0.0
    num_frames = 0
    shape: tuple[int, ...] = ()
    with open_frames(camera.whep_url) as stream:
        guard = threading.Timer(_FIRST_PICTURE_S, stream.close)
        guard.start()
        for frame in stream:
            guard.cancel()
            num_frames += 1
            last = time.monotonic()
            if num_frames == 1:
                first, shape = last, frame.image_bgr_hwc.shape
            if last - first >= seconds:
                break
        guard.cancel()
        dropped = stream.num_dropped
    if num_frames < 2:
        raise DemoError(f"live: {num_frames} pictures arrived within {_FIRST_PICTURE_S:.0f} s")
    return {
        "frames": num_frames,
        "dropped": dropped,
        "seconds": round(last - first, 2),
        "fps": round((num_frames - 1) / (last - first), 1),
        "first_picture_s": round(first - started, 2),
        "width": shape[1],
        "height": shape[0],
    }
