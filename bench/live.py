"""How live the stream is on this machine: delay, share of pictures that arrive, cost per viewer, memory.

    python -m bench.live [--seconds 20] [--source URI] [--protector model|blur] [--soak-minutes 10] [--json]

1. one aiortc subscriber in another process: capture to arrival and to decoded picture (aiortc's jitter buffer
   gives a picture out when the next one begins, so one frame interval is its own), share of pictures decoded;
2. headless Chromium on the page: share decoded, freezes, capture to display (requestVideoFrameCallback);
3. fan-out alone: the units of (1) again in real time without encoder or protector, CPU at 0, 1 and 8 viewers;
4. with --soak-minutes: four viewers coming and going all the time, slope of the resident memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from base.errors import VeilError
from bench import live_browser
from camera.access import ListenAddress
from camera.broadcast import Broadcast, QueueLimits, Subscription, WhenFull
from camera.http import HttpOptions, HttpServer
from camera.pipeline import FrameProtector, Pipeline
from camera.service import CameraService, ServiceOptions
from camera.sources import Captured, Source, open_source
from camera.state import CameraView
from camera.stats import PipelineStats
from camera.webrtc.viewers import Viewers
from codec.packets import SealedPacket, SealedStream
from codec.sealer import SealedUnit
from keys import CameraKey, EpochRing, Recipient
from models import load_protector
from tests.support.blur import BlurProtector
from tests.support.chromium import find_chromium

ANY_PORT = HttpOptions(listen=ListenAddress("127.0.0.1", 0), changes_per_s=1000, changes_burst=1000)
KEPT_UNITS = 1500
Report = dict[str, object]


class Recorded:
    """Keeps what a broadcast published: capture times of all units, and the latest units for a replay."""

    def __init__(self, broadcast: Broadcast) -> None:
        self.times_us: list[int] = []
        self.units: list[SealedUnit] = []
        self.keeps = True
        limits = QueueLimits(max_units=4096, max_bytes=2**30)
        self._subscription: Subscription = broadcast.subscribe(
            "bench", limits=limits, when_full=WhenFull.SKIP
        )
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for unit in self._subscription:
            self.times_us.append(unit.unit.pts_us)
            if self.keeps and len(self.units) < KEPT_UNITS:
                self.units.append(unit)

    def count(self, first_us: int, last_us: int) -> int:
        """Units captured between two times, both included."""
        return sum(first_us <= time_us <= last_us for time_us in self.times_us)


class CameraClock(Source):
    """Stamps pictures when the source gives them out, as a camera does, not with their time in the file."""

    def __init__(self, inner: Source) -> None:
        super().__init__(inner.name, drops=inner.drops)
        self._inner = inner

    def __iter__(self) -> Iterator[Captured]:
        for captured in self._inner:
            self._state, self._rate = self._inner.state, self._inner.rate
            now_us = time.time_ns() // 1000
            yield replace(captured, time_us=now_us, frame=replace(captured.frame, time_us=now_us))

    def trailing_packets(self) -> tuple[SealedPacket, ...]:
        """Those of the source."""
        return self._inner.trailing_packets()

    def sealed_streams(self) -> tuple[SealedStream, ...]:
        """Those of the source."""
        return self._inner.sealed_streams()

    def close(self) -> None:
        """End both."""
        super().close()
        self._inner.close()


class Replay:
    """A camera that publishes recorded units again, in real time, and does nothing else."""

    def __init__(self, units: Sequence[SealedUnit], stats: PipelineStats) -> None:
        starts = [index for index, unit in enumerate(units) if unit.starts_segment]
        self._units = units[starts[0] : starts[-1]]
        self._stats = stats
        self._stop = threading.Event()
        self.broadcast = Broadcast()
        self.sub = None  # one rendition
        self.thread = threading.Thread(target=self._run, daemon=True)

    def request_key_frame(self) -> None:
        """Not obeyed."""

    def stats(self) -> PipelineStats:
        """Those of the recorded camera."""
        return self._stats

    def stop(self) -> None:
        """End."""
        self._stop.set()

    def _run(self) -> None:
        times_us = [unit.unit.pts_us for unit in self._units]
        lap_us = times_us[-1] - times_us[0] + 40_000
        start_s, start_us, lap = time.monotonic(), time.time_ns() // 1000, 0
        while True:
            for unit, time_us in zip(self._units, times_us, strict=True):
                offset_us = lap * lap_us + time_us - times_us[0]
                if self._stop.wait(max(0.0, start_s + offset_us / 1e6 - time.monotonic())):
                    return
                moved = replace(unit.unit, pts_us=start_us + offset_us)
                self.broadcast.publish(replace(unit, unit=moved))
            lap += 1


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    source: str
    protector: str
    seconds: float
    soak_minutes: float
    json: bool


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        report = asyncio.run(_measure(options))
    except VeilError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        for name, value in report.items():
            shown = "  ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value
            print(f"{name:22} {shown}")
    return 0


def _parse(arguments: list[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench.live", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--source", default="synthetic:?size=1280x720&fps=25")
    parser.add_argument("--protector", choices=["model", "blur"], default="model")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--soak-minutes", type=float, default=0)
    parser.add_argument("--json", action="store_true")
    return Options(**vars(parser.parse_args(arguments)))


async def _measure(options: Options) -> Report:
    report: Report = {"machine": _machine(), "source": options.source}
    async with _camera(options) as (service, recorded):
        await _until_live(service)
        report["subscriber"] = await _subscriber(service, recorded, options.seconds)
        if find_chromium() is not None:
            report["chromium"] = await _chromium(service, recorded, options.seconds)
        stats = service.pipeline.stats()
        recorded.keeps = False  # its memory is not the camera's
        if options.soak_minutes:
            report["soak"] = await _soak(service, 60 * options.soak_minutes)
        report["pipeline"] = {
            "protector": stats.protector,
            "fps": round(stats.fps, 1),
            "mbit_s": round(stats.bitrate_bps / 1e6, 2),
            "dropped": sum(stats.dropped.values()),
            "pictures": stats.frames_out,
        }
    report["fan-out"] = await _fan_out(recorded.units, stats, options.seconds / 2)
    return report


@asynccontextmanager
async def _camera(options: Options) -> AsyncIterator[tuple[CameraService, Recorded]]:
    camera_key = CameraKey.generate("bench")
    recipient, _ = Recipient.generate("bench")
    source = CameraClock(open_source(options.source, loop=True, realtime=True))
    epochs = EpochRing(camera_key.camera_id, [recipient])
    pipeline = Pipeline(source, _protector(options.protector), camera_key, epochs)
    service = CameraService(pipeline, ServiceOptions("bench", ANY_PORT, max_viewers=64))
    recorded = Recorded(pipeline.broadcast)
    await service.start()
    try:
        yield service, recorded
    finally:
        await service.stop()


def _protector(name: str) -> FrameProtector:
    return BlurProtector() if name == "blur" else load_protector(refresh=2, hold=True)


async def _until_live(service: CameraService) -> None:
    async with asyncio.timeout(60):
        while not service.viewers.is_live:
            await asyncio.sleep(0.1)
    await asyncio.sleep(3.0)


async def _run_subscribers(
    url: str, viewers: int, seconds: float, *, decode: bool
) -> list[dict[str, object]]:
    flags = ["--decode"] if decode else []
    arguments = ["-m", "bench.live_subscriber", url, f"--viewers={viewers}", f"--seconds={seconds}", *flags]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        message = f"subscriber ended with status {process.returncode}"
        raise VeilError(message)
    received: list[dict[str, object]] = json.loads(out)
    return received


async def _subscriber(service: CameraService, recorded: Recorded, seconds: float) -> Report:
    (got,) = await _run_subscribers(service.whep_url, 1, seconds, decode=True)
    published = recorded.count(int(str(got["first_us"])), int(str(got["last_us"])))
    decoded = int(str(got["decoded"]))
    return {
        "published": published,
        "decoded": decoded,
        "share": round(decoded / max(1, published), 4),
        "first_unit_ms": round(float(str(got["first_unit_ms"]))),
        **_spread("arrival_ms", got["arrival_ms"]),
        **_spread("decoded_ms", got["decoded_ms"]),
    }


async def _chromium(service: CameraService, recorded: Recorded, seconds: float) -> Report:
    seen = await live_browser.watch(service, seconds, recorded.times_us)
    return {
        "published": seen.published,
        "decoded": seen.decoded,
        "share": round(seen.decoded / max(1, seen.published), 4),
        "dropped": seen.dropped,
        "freezes": seen.freezes,
        "packets_lost": seen.packets_lost,
        "sessions": seen.sessions,
        **_spread("display_ms", seen.display_ms),
    }


async def _fan_out(units: Sequence[SealedUnit], stats: PipelineStats, seconds: float) -> Report:
    camera = Replay(units, stats)
    viewers = Viewers(camera, max_viewers=64)
    server = HttpServer(CameraView("bench", camera, viewers), ANY_PORT)
    await server.start()
    camera.thread.start()
    report: Report = {}
    shares: dict[int, float] = {}
    for count in (0, 1, 8):
        waiting = None
        if count:
            waiting = asyncio.create_task(
                _run_subscribers(server.url + "/whep", count, seconds + 4, decode=False)
            )
            while len(viewers) < count:
                await asyncio.sleep(0.1)
            await asyncio.sleep(3.0)
        cpu_s, began_s = time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        shares[count] = 100 * (time.process_time() - cpu_s) / (time.monotonic() - began_s)
        report[f"cpu_percent_{count}"] = round(shares[count], 1)
        if waiting is not None:
            await waiting
    report["cpu_percent_per_viewer"] = round((shares[8] - shares[1]) / 7, 2)
    camera.stop()
    await viewers.close()
    await server.close()
    return report


async def _soak(service: CameraService, seconds: float) -> Report:
    """Four subscribers who stay for some seconds and come again; memory every two seconds."""

    async def coming_and_going(index: int) -> None:
        while True:
            await _run_subscribers(service.whep_url, 1, 3.0 + 2 * index, decode=False)

    tasks = [asyncio.create_task(coming_and_going(index)) for index in range(4)]
    began_s = time.monotonic()
    samples: list[tuple[float, float]] = []
    while time.monotonic() - began_s < seconds:
        await asyncio.sleep(2.0)
        samples.append((time.monotonic() - began_s, _rss_mb()))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    second_half = np.array(samples[len(samples) // 2 :])
    slope_mb_per_s = float(np.polyfit(second_half[:, 0], second_half[:, 1], 1)[0])
    return {
        "minutes": round(seconds / 60, 1),
        "samples": len(samples),
        "rss_start_mb": round(samples[0][1], 1),
        "rss_end_mb": round(samples[-1][1], 1),
        "slope_mb_per_min": round(60 * slope_mb_per_s, 3),
    }


def _spread(name: str, values: object) -> Report:
    array = np.array(values, float)
    if not array.size:
        return {name: None}
    p50, p95 = np.percentile(array, [50, 95])
    return {f"{name}_p50": round(float(p50), 1), f"{name}_p95": round(float(p95), 1), f"{name}_n": array.size}


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _machine() -> Report:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
