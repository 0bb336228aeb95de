"""Thousands of bad requests to the camera's HTTP API: no 5xx, no hang, no growth.

    nice python -m bench.http_fuzz [--requests 20000] [--clients 8] [--seed 1] [--json]

The server is the whole one (WHEP, WHIP, events, access log, recordings) with a token; rates are not limited,
so that every request is looked at. Sizes are taken after each tenth of the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from camera.access_log import AccessLog
from camera.events import EventHub
from camera.recordings import RecordingFolder
from camera.recordings_api import RecordingsApi
from camera.sources.pushed import PushedSource
from camera.webrtc.ingest import WhipIngest
from tests.support.bad_requests import Fuzzer
from tests.support.cuts import Held
from tests.support.recordings import record_day
from tests.support.serving import TOKEN, serving
from tests.support.stand_in import StandInCamera

Report = dict[str, object]
PARTS = 10


def rss_mb() -> float:
    """Resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError


async def fuzz(options: argparse.Namespace, folder: Path) -> Report:
    """Send all, in parts: growth shows from one to the next."""
    (path,) = record_day(folder / "yard", [(datetime(2026, 3, 1, 12, tzinfo=UTC), 8.0)])
    recording = f"/api/v1/recordings/2026-03-01/{path.name}"
    source = PushedSource()
    with StandInCamera(width=320, height=180, fps=5) as camera:
        parts = (EventHub("yard"), AccessLog(), RecordingsApi(RecordingFolder(folder / "yard")))
        async with serving(
            camera, token=TOKEN, ingest_token=TOKEN, burst=10**7, parts=(*parts, WhipIngest(source))
        ) as server:

            async def part(count: int, seed: int) -> list[Fuzzer]:
                fuzzers = [
                    Fuzzer(server.url, seed + number, token=TOKEN, recording=recording)
                    for number in range(options.clients)
                ]
                await asyncio.gather(*(fuzzer.run(count // options.clients) for fuzzer in fuzzers))
                async with asyncio.timeout(60):
                    while len(server.viewers):
                        await asyncio.sleep(0.1)
                await asyncio.sleep(2.0)
                gc.collect()
                trim(0)  # else holes between what is kept count as growth
                return fuzzers

            trim = ctypes.CDLL("libc.so.6").malloc_trim
            begin_s = time.monotonic()
            fuzzers, memory_mb = await part(options.requests // PARTS, options.seed), [rss_mb()]
            before, tasks = Held.now(), len(asyncio.all_tasks())
            for number in range(1, PARTS):
                fuzzers += await part(options.requests // PARTS, options.seed + 1000 * number)
                memory_mb.append(rss_mb())
            more, more_tasks = Held.now().more_than(before), len(asyncio.all_tasks()) - tasks
    source.close()
    statuses: Counter[int] = sum((one.outcome.statuses for one in fuzzers), Counter())
    failures = [failure for one in fuzzers for failure in one.outcome.failures]
    return {
        "requests": sum(one.outcome.requests for one in fuzzers),
        "seconds": round(time.monotonic() - begin_s),
        "statuses": dict(sorted(statuses.items())),
        "closed_without_answer": sum(one.outcome.closed for one in fuzzers),
        "slowest_answer_s": round(max(one.outcome.slowest_s for one in fuzzers), 2),
        "num_failures": len(failures),
        "failures": failures[:10],
        "more": more | ({"tasks": more_tasks} if more_tasks > 0 else {}),
        "rss_mb": [round(value, 1) for value in memory_mb],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.http_fuzz", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report = asyncio.run(fuzz(options, Path(name)))
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        for name, value in report.items():
            print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
