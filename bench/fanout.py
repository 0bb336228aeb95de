"""Many viewers of one camera, some of them slow or dead; how long joining takes; what is left behind.

    python -m bench.fanout [--viewers 50] [--bad 5] [--seconds 30] [--joins 40] [--soak-minutes 0] [--json]

720p at about 2 Mbit/s, recorded once and published again in real time, so that this process does nothing
but send: its CPU share is the fan-out's. Viewers are processes of their own. Of the bad ones half read
nothing for half a second at a time, half are stopped (SIGSTOP) and never come back. A freeze is a gap of more
than 0.5 s at a healthy viewer. With --soak-minutes viewers join and leave all the time, and memory, tasks and
descriptors are watched.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from analytics.whep_client import open_whep
from camera.broadcast import Broadcast
from camera.stats import PipelineStats
from codec.sealer import SealedUnit
from tests.support.serving import Serving, serving
from tests.support.stand_in import StandInCamera

FREEZE_S = 0.5
SETTLE_S = 4.0
RECORD_S = 8.0
RECORD_AT_MOST_S = 180.0  # a starved machine codes slowly
START_AT_MOST_S = 180.0

Report = dict[str, object]


class Replay:
    """A camera that publishes recorded units again and again, in real time, and does nothing else."""

    sub = None

    def __init__(self, units: Sequence[SealedUnit], stats: PipelineStats) -> None:
        self.broadcast = Broadcast()
        self._units = units
        self._stats = stats
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def request_key_frame(self) -> None:
        """Not obeyed."""

    def stats(self) -> PipelineStats:
        """Those of the recorded camera."""
        return self._stats

    def close(self) -> None:
        """End the stream."""
        self._stop.set()
        self._thread.join()
        self.broadcast.close()

    def _run(self) -> None:
        span_us = self._units[-1].unit.pts_us - self._units[0].unit.pts_us + 40_000
        start_s, first_us = time.monotonic(), self._units[0].unit.pts_us
        turn = 0
        while True:
            for unit in self._units:
                pts_us = unit.unit.pts_us + turn * span_us
                if self._stop.wait(max(0.0, start_s + (pts_us - first_us) / 1e6 - time.monotonic())):
                    return
                self.broadcast.publish(replace(unit, unit=replace(unit.unit, pts_us=pts_us)))
            turn += 1


def record() -> tuple[list[SealedUnit], PipelineStats]:
    """Some seconds of 720p, with grain so that it takes about 2 Mbit/s."""
    with StandInCamera(width=1280, height=720, gop_s=2.0, sealed_bytes_per_frame=200, noise=14) as camera:
        subscription = camera.broadcast.subscribe("record")
        units = []
        began_s = time.monotonic()
        starts: list[int] = []
        while (passed_s := time.monotonic() - began_s) < RECORD_S or len(starts) < 3:
            if passed_s > RECORD_AT_MOST_S:
                message = f"no two whole segments within {RECORD_AT_MOST_S:.0f} s: is the machine busy?"
                raise SystemExit(message)
            unit = subscription.get(1.0)
            if unit is not None:
                if unit.starts_segment:
                    starts.append(len(units))
                units.append(unit)
        stats = camera.stats()
    return units[starts[0] : starts[-1]], stats


async def viewer(url: str, stop: asyncio.Event, *, stalls: bool) -> dict[str, float]:
    """Watch until told to stop; longest gap and freezes after settling."""
    last_s: float | None = None
    gaps = []
    num_bytes = 0
    async with await open_whep(url) as stream:
        began_s = now_s = time.monotonic()
        async for unit in stream:
            now_s = time.monotonic()
            num_bytes += len(unit.data)
            if last_s is not None and now_s - began_s > SETTLE_S:
                gaps.append(now_s - last_s)
            last_s = now_s
            if stalls and now_s - began_s > SETTLE_S:  # all of this process are connected by then
                time.sleep(0.5)  # the point: this process reads nothing meanwhile
            if stop.is_set():
                break
    return {
        "units": len(gaps),
        "freezes": sum(gap > FREEZE_S for gap in gaps),
        "longest_gap_ms": round(1000 * max(gaps, default=0)),
        "mbit_s": round(8e-6 * num_bytes / max(now_s - began_s, 1e-6), 2),
    }


async def viewers(url: str, count: int, seconds: float, *, stalls: bool) -> None:
    """Watch until standard input ends, at most ``seconds``."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def wait() -> None:
        while os.read(0, 4096):  # sys.stdin would be locked by this thread when the process ends
            pass
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait, daemon=True).start()
    loop.call_later(seconds, stop.set)
    found = await asyncio.gather(
        *(viewer(url, stop, stalls=stalls) for _ in range(count)), return_exceptions=True
    )
    print(json.dumps([one if isinstance(one, dict) else {"error": type(one).__name__} for one in found]))


async def spawn(url: str, count: int, seconds: float, *flags: str) -> asyncio.subprocess.Process:
    arguments = [
        "-m",
        "bench.fanout",
        "--as-viewers",
        url,
        f"--viewers={count}",
        f"--seconds={seconds}",
        *flags,
    ]
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def fan_out(server: Serving, options: argparse.Namespace) -> Report:
    good, bad = options.viewers - options.bad, options.bad
    num_dead = bad // 2
    seconds = options.seconds + START_AT_MOST_S + 60
    running: list[asyncio.subprocess.Process] = []
    try:
        healthy = [await spawn(server.whep, part, seconds) for part in _split(good, 2) if part]
        running += healthy
        if bad - num_dead:
            running.append(await spawn(server.whep, bad - num_dead, seconds, "--stalls"))
        dead = await spawn(server.whep, num_dead, seconds) if num_dead else None
        running += [dead] if dead is not None else []
        await _all_there(server, options.viewers)
        await asyncio.sleep(SETTLE_S)
        if dead is not None:
            dead.send_signal(signal.SIGSTOP)
        cpu_s, began_s = time.process_time(), time.monotonic()
        await asyncio.sleep(options.seconds)
        share = (time.process_time() - cpu_s) / (time.monotonic() - began_s)
        results = []
        for process in healthy:
            out, _ = await process.communicate(b"")  # closes its input: Python 3.11 does not for None
            results += json.loads(out)
    finally:
        for process in running:
            if process.returncode is None:
                process.kill()
            await process.wait()
    return {
        "viewers": options.viewers,
        "slow_or_dead": bad,
        "cpu_cores": round(share, 3),
        "healthy": len(results),
        "failed": sum("error" in one for one in results),
        "freezes": sum(one.get("freezes", 0) for one in results),
        "longest_gap_ms": max((one.get("longest_gap_ms", 0) for one in results), default=0),
        "mbit_s_per_viewer": round(float(np.mean([one.get("mbit_s", 0) for one in results])), 2),
    }


async def _all_there(server: Serving, count: int) -> None:
    began_s = time.monotonic()
    while (there := len(server.viewers)) < count:
        if time.monotonic() - began_s > START_AT_MOST_S:
            message = f"{there} of {count} viewers within {START_AT_MOST_S:.0f} s: is the machine busy?"
            raise SystemExit(message)
        await asyncio.sleep(0.2)


async def joins(server: Serving, count: int) -> Report:
    """From before the POST to the first picture's bytes, at moments spread over the group of pictures."""
    times_ms = []
    for number in range(count):
        await asyncio.sleep(random.Random(number).uniform(0, 0.5))
        began_s = time.monotonic()
        async with await open_whep(server.whep) as stream:
            async for _ in stream:
                times_ms.append(1000 * (time.monotonic() - began_s))
                break
    low, high = np.percentile(times_ms, [50, 95])
    return {"joins": count, "join_ms_p50": round(low), "join_ms_p95": round(high)}


async def soak(server: Serving, minutes: float) -> Report:
    """Viewers join and leave; what the sending process holds at the first quarter's end and at the end."""
    samples = []
    end_s = time.monotonic() + 60 * minutes
    count = 0
    while time.monotonic() < end_s:
        process = await spawn(server.whep, 4, 60.0)
        await asyncio.sleep(4.0)
        await process.communicate(b"")  # closes its input: Python 3.11 does not for None
        count += 4
        while len(server.viewers):
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        gc.collect()
        samples.append((time.monotonic(), _rss_mb(), len(asyncio.all_tasks()), _descriptors()))
    begin = samples[len(samples) // 4]
    last = samples[-1]
    span_10min = max((last[0] - begin[0]) / 600, 1e-6)
    return {
        "sessions": count,
        "rss_mb": round(last[1], 1),
        "rss_slope_mb_per_10min": round((last[1] - begin[1]) / span_10min, 2),
        "tasks_more": last[2] - begin[2],
        "descriptors_more": last[3] - begin[3],
    }


def _split(count: int, parts: int) -> list[int]:
    return [count // parts + (index < count % parts) for index in range(parts)]


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def run(options: argparse.Namespace) -> Report:
    units, stats = record()
    sent = sum(unit.unit.without_sealed().num_bytes for unit in units)
    span_s = (units[-1].unit.pts_us - units[0].unit.pts_us) / 1e6
    report: Report = {"stream_mbit_s": round(8e-6 * sent / span_s, 2)}
    camera = Replay(units, stats)
    try:
        async with serving(camera, max_viewers=256, burst=2000) as server:
            while not server.viewers.is_live:
                await asyncio.sleep(0.1)
            if options.joins:
                report |= await joins(server, options.joins)
            if options.viewers:
                report |= await fan_out(server, options)
            if options.soak_minutes:
                report |= await soak(server, options.soak_minutes)
    finally:
        camera.close()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fanout", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--bad", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--joins", type=int, default=40)
    parser.add_argument("--soak-minutes", type=float, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--as-viewers", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--stalls", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_viewers:
        asyncio.run(viewers(options.as_viewers, options.viewers, options.seconds, stalls=options.stalls))
        return
    report = asyncio.run(run(options))
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        for name, value in report.items():
            print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
