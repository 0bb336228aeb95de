"""How a camera gets over what goes wrong around it: times to recover, lost segments, leaks.

    nice python -m bench.recovery [--source 20] [--disk 5] [--rtsp 10] [--whip 10] [--json]

`source`  a network camera (GStreamer's RTSP server) behind a cable that is cut, or frozen, and restored
`disk`    the recorder's disk (a tmpfs of its own, so this part needs root) is filled and freed
`rtsp`    a media server (ffmpeg) that is published to is killed and started again; `whip` likewise

Recovery is counted from the moment at which the other side works again to the first new picture behind the
camera, the first recorded file, the first unit at the server. Every finished segment is looked for in the
recordings. Descriptors, threads, tasks and child processes are counted before and after the cuts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from camera.access import ListenAddress
from camera.broadcast import Broadcast, QueueLimits
from camera.outputs.libav import LibavOutput
from camera.outputs.target import parse_target
from camera.outputs.whip import WhipOutput
from camera.pipeline import Pipeline, PipelineOptions
from camera.publisher import CodingOptions
from camera.recorder import Recorder, RecorderOptions
from camera.rtsp.server import RtspOptions, RtspServer
from camera.sources import open_source
from codec.container import read_access_units
from codec.segments import read_segments
from keys import CameraKey, EpochRing, Recipient
from tests.support.blur import BlurProtector
from tests.support.cuts import Cable, Held
from tests.support.serving import TOKEN
from tests.support.stand_in import StandInCamera

Part = dict[str, object]
Report = dict[str, Part]

PATIENCE_S = 40.0
DISK_BYTES = 24 << 20
MIN_FREE_BYTES = 4 << 20
# Seconds without the other side; the longest are those after which a careless pause has grown.
DOWN_S = (0.2, 1.0, 2.0, 4.0, 8.0)


class Ledger:
    """Which segments a broadcast has finished, and when its newest unit came."""

    def __init__(self, broadcast: Broadcast) -> None:
        self.finished: set[int] = set()
        self.newest_us = 0
        limits = QueueLimits(max_units=100_000, max_bytes=1 << 30)
        self._subscription = broadcast.subscribe("bench", limits=limits)
        self._broadcast = broadcast
        self._thread = threading.Thread(target=self._run, name="bench-ledger")
        self._thread.start()

    def _run(self) -> None:
        for unit in self._subscription:
            self.newest_us = unit.unit.pts_us
            if unit.is_last:
                self.finished.add(unit.segment_index)

    def wait_for(self, time_us: int) -> float:
        """Seconds until a picture taken after ``time_us`` (Unix) comes."""
        return until(lambda: self.newest_us > time_us)

    def close(self) -> None:
        """Stop listening."""
        self._broadcast.unsubscribe(self._subscription)
        self._thread.join()


class Ticker:
    """How long the process stood still at most: libav must not keep the global lock while a camera hangs."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bench-ticker")
        self._thread.start()

    def _run(self) -> None:
        last_s = time.monotonic()
        while not self._stop.wait(0.05):
            now_s = time.monotonic()
            self.longest_s, last_s = max(self.longest_s, now_s - last_s), now_s

    def close(self) -> None:
        """Stop counting."""
        self._stop.set()
        self._thread.join()


def until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> float:
    """Seconds until it holds.

    Raises:
        TimeoutError: it never did.
    """
    start_s = time.monotonic()
    while not condition():
        if time.monotonic() - start_s > timeout_s:
            raise TimeoutError
        time.sleep(0.02)
    return time.monotonic() - start_s


def recorded_segments(folder: Path) -> set[int]:
    """Indices of all whole segments in finished files."""
    found: set[int] = set()
    for path in sorted(folder.rglob("*.mp4")):
        with read_access_units(path) as units:
            for view in read_segments(units):
                header, last = view.header(), view.units[-1].meta
                if header is not None and last is not None and last.signature:
                    found.add(header.segment_index)
    return found


def summary(times_s: list[float]) -> Part:
    """Of recoveries."""
    return {
        "n": len(times_s),
        "median_s": round(statistics.median(times_s), 2),
        "worst_s": round(max(times_s), 2),
        "above_5_s": sum(value > 5 for value in times_s),
        "all_s": [round(value, 2) for value in times_s],
    }


@contextmanager
def camera_behind(url: str, folder: Path) -> Iterator[tuple[Pipeline, Ledger]]:
    """A pipeline that pulls ``url`` and records."""
    key = CameraKey.generate("gate")
    recipient, _ = Recipient.generate("custodian")
    pipeline = Pipeline(
        open_source(url),
        BlurProtector(),
        key,
        EpochRing(key.camera_id, [recipient]),
        PipelineOptions(CodingOptions(preset="ultrafast")),
    )
    ledger = Ledger(pipeline.broadcast)
    with Recorder(pipeline.broadcast, RecorderOptions(folder, "gate")) as recorder:
        with pipeline:
            until(lambda: pipeline.stats().frames_out > 20)
            yield pipeline, ledger
        recorder.join(20)
    ledger.close()


def source_cuts(count: int, folder: Path) -> Part:
    """Cut the cable ``count`` times; every fourth time it is frozen for so long that the camera gives up."""
    times_s = []
    with StandInCamera(width=320, height=180, fps=10, gop_s=1.0, sealed_bytes_per_frame=500) as camera:
        options = RtspOptions(ListenAddress("127.0.0.1", 0), layer="protected")
        server = RtspServer(options, camera.broadcast, camera.request_key_frame)
        server.start()
        with (
            Cable(int(server.url.rpartition(":")[2].partition("/")[0])) as cable,
            camera_behind(f"rtsp://127.0.0.1:{cable.port}/live", folder) as (pipeline, ledger),
        ):
            before = Held.now()
            ticker = Ticker()
            for number in range(count):
                if number % 4 == 3:
                    cable.freeze()
                    time.sleep(7.0)
                else:
                    cable.cut()
                    time.sleep(DOWN_S[number % len(DOWN_S)])
                cable.restore()
                back_us = time.time_ns() // 1000
                times_s.append(ledger.wait_for(back_us))
                time.sleep(1.0)
            ticker.close()
            time.sleep(2.0)
            more = Held.now().more_than(before)
            reconnects = pipeline.stats().reconnects
        server.close()
    lost = sorted(ledger.finished - recorded_segments(folder))
    return summary(times_s) | {
        "reconnects": reconnects,
        "longest_standstill_s": round(ticker.longest_s, 2),
        "finished_segments": len(ledger.finished),
        "lost_segments": lost,
        "leaks": more,
    }


@contextmanager
def small_disk() -> Iterator[Path]:
    """A tmpfs of its own."""
    with tempfile.TemporaryDirectory() as name:
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", name]
        subprocess.run(command, check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


def fill(path: Path, leave_bytes: int) -> None:
    """Write until no more than ``leave_bytes`` are free."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while (free := shutil.disk_usage(path.parent).free) > leave_bytes:
            file.write(bytes(min(1 << 16, free - leave_bytes)))


def full_disks(count: int) -> Part:
    """Fill the disk ``count`` times: in turn below what the recorder leaves free, and to the last byte."""
    times_s = []
    with (
        small_disk() as disk,
        StandInCamera(width=320, height=180, fps=10, gop_s=1.0, sealed_bytes_per_frame=500) as camera,
    ):
        recorded = lost = 0
        before = Held.now()
        for number in range(count):
            folder = disk / f"run{number}"
            time_s, segments = one_full_disk(camera, folder, to_the_last_byte=number % 2 == 1)
            times_s.append(time_s)
            recorded += segments
            lost += segments - len(recorded_segments(folder))
        more = Held.now().more_than(before)
    return summary(times_s) | {"recorded_segments": recorded, "lost_segments": lost, "leaks": more}


def one_full_disk(camera: StandInCamera, folder: Path, *, to_the_last_byte: bool) -> tuple[float, int]:
    """Seconds from room on the disk to recording again, and how many segments the recorder counted."""
    options = RecorderOptions(folder, "gate", min_free_bytes=0 if to_the_last_byte else MIN_FREE_BYTES)
    filler = folder.parent / "filler"
    with Recorder(camera.broadcast, options) as recorder:
        until(lambda: recorder.state().segments >= 2)
        fill(filler, 0 if to_the_last_byte else MIN_FREE_BYTES // 2)
        until(lambda: bool(recorder.state().error))
        time.sleep(2.0)
        filler.unlink()
        segments = recorder.state().segments
        time_s = until(lambda: not recorder.state().error)
        until(lambda: recorder.state().segments > segments)
    return time_s, recorder.state().segments


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def rtsp_listener(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """An ffmpeg that takes one publisher; killed at the end."""
    quick = ("-fflags", "nobuffer", "-probesize", "32", "-analyzeduration", "0")
    command = ["ffmpeg", "-v", "quiet", *quick, "-rtsp_flags", "listen", "-i", url, "-c", "copy"]
    process = subprocess.Popen(
        [*command, "-f", "h264", "-flush_packets", "1", "pipe:1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        output_of(process).close()


def output_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    """Its standard output, which was asked for."""
    if process.stdout is None:
        raise RuntimeError
    return process.stdout


def rtsp_restarts(count: int) -> Part:
    """Kill the server ``count`` times."""
    times_s = []
    url = f"rtsp://127.0.0.1:{free_port()}/gate"
    with StandInCamera(width=320, height=180, fps=10, gop_s=2.0, sealed_bytes_per_frame=500) as camera:
        output = LibavOutput(parse_target(url), camera.broadcast)
        output.start()
        before: Held | None = None
        for number in range(count + 1):
            with rtsp_listener(url) as server:
                start_s = time.monotonic()
                output_of(server).read(1)
                if number:
                    times_s.append(time.monotonic() - start_s)
                before = before or Held.now()
                time.sleep(1.0)
                more = Held.now().more_than(before)
            time.sleep(DOWN_S[number % len(DOWN_S)])
        state = output.state()
        output.close()
    return summary(times_s) | {"reconnects": state.reconnects, "leaks": more}


async def line_of(process: asyncio.subprocess.Process, text: str) -> None:
    """Wait until it says so."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            line = b"" if process.stdout is None else await process.stdout.readline()
            if line.strip() == text.encode():
                return
            if not line:
                message = "the WHIP server ended"
                raise RuntimeError(message)


async def whip_restarts(count: int) -> Part:
    """Kill the server ``count`` times; it says nothing to its publisher."""
    times_s = []
    port = free_port()
    with StandInCamera(width=320, height=180, fps=10, gop_s=2.0) as camera:
        output = WhipOutput(parse_target(f"whip://127.0.0.1:{port}/whip", token=TOKEN), camera)
        output.start()
        samples: list[tuple[Held, int]] = []
        for number in range(count + 1):
            server = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.support.whip_server", str(port), stdout=subprocess.PIPE
            )
            try:
                await line_of(server, "ready")
                start_s = time.monotonic()
                await line_of(server, "picture")
                if number:
                    times_s.append(time.monotonic() - start_s)
                await asyncio.sleep(3.0)
                samples.append((Held.now(), len(asyncio.all_tasks())))
            finally:
                with suppress(ProcessLookupError):
                    server.kill()
                await server.wait()
            await asyncio.sleep(DOWN_S[number % len(DOWN_S)])
        state = output.state()
        await output.close()
    (held, tasks), (last_held, last_tasks) = samples[0], samples[-1]
    more = last_held.more_than(held) | ({"tasks": last_tasks - tasks} if last_tasks > tasks else {})
    return summary(times_s) | {"reconnects": state.reconnects, "leaks": more}


def parts(options: argparse.Namespace) -> Iterator[tuple[str, Part]]:
    """What was asked for, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        if options.source:
            yield "source", source_cuts(options.source, Path(name))
    if options.disk:
        yield "disk", full_disks(options.disk)
    if options.rtsp:
        yield "rtsp", rtsp_restarts(options.rtsp)
    if options.whip:
        yield "whip", asyncio.run(whip_restarts(options.whip))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.recovery", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--source", type=int, default=20)
    parser.add_argument("--disk", type=int, default=5 if os.geteuid() == 0 else 0)
    parser.add_argument("--rtsp", type=int, default=10)
    parser.add_argument("--whip", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report: Report = {}
    for name, part in parts(options):
        report[name] = part
        if not options.json:
            print(name, *(f"  {key}={value}" for key, value in part.items()), sep="\n", flush=True)
    if options.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
