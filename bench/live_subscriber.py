"""Subscribers for ``bench.live``, in a process of their own: the camera keeps its interpreter lock.

    python -m bench.live_subscriber URL --viewers 8 --seconds 20 [--decode]

Prints one JSON line. Delays are wall clock minus the capture time in the unit's FRAME record; both clocks are
this machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import asdict, dataclass

import av
import numpy as np

from analytics.whep_client import open_whep
from codec.access_unit import AccessUnit
from codec.segments import view_unit

SETTLE_S = 2.0  # joining plays the open segment fast; not measured


@dataclass(frozen=True, slots=True)
class Received:
    """What one subscriber got. Times are Unix microseconds of capture; delays milliseconds."""

    first_us: int
    last_us: int
    units: int
    decoded: int
    dropped: int
    first_unit_ms: float  # from the POST to the first unit
    arrival_ms: tuple[float, ...]
    decoded_ms: tuple[float, ...]


async def subscribe(url: str, seconds: float, *, decode: bool) -> Received:
    """Receive for ``seconds`` after settling."""
    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_count = 1
    arrival_ms, decoded_ms, times_us = [], [], []
    units = decoded = 0
    first_unit_ms = 0.0
    began_s = time.monotonic()
    async with await open_whep(url) as stream:
        async for unit in stream:
            now_s = time.monotonic()
            now_us = time.time_ns() // 1000
            first_unit_ms = first_unit_ms or 1e3 * (now_s - began_s)
            pictures = decoder.decode(av.Packet(unit.data)) if decode else []
            if now_s < began_s + SETTLE_S:
                continue
            frame = view_unit(AccessUnit.from_annexb(unit.data, unit.pts_us)).frame
            if frame is None:
                continue
            units += 1
            decoded += len(pictures)
            times_us.append(frame.time_us)
            arrival_ms.append((now_us - frame.time_us) / 1e3)
            if pictures:
                decoded_ms.append((time.time_ns() // 1000 - frame.time_us) / 1e3)
            if now_s > began_s + SETTLE_S + seconds:
                break
        dropped = stream.num_dropped
    return Received(
        first_us=times_us[0] if times_us else 0,
        last_us=times_us[-1] if times_us else 0,
        units=units,
        decoded=decoded,
        dropped=dropped,
        first_unit_ms=first_unit_ms,
        arrival_ms=tuple(np.round(arrival_ms, 2).tolist()),
        decoded_ms=tuple(np.round(decoded_ms, 2).tolist()),
    )


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--viewers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--decode", action="store_true")
    options = parser.parse_args()
    received = await asyncio.gather(
        *(subscribe(options.url, options.seconds, decode=options.decode) for _ in range(options.viewers))
    )
    print(json.dumps([asdict(one) for one in received]))


if __name__ == "__main__":
    asyncio.run(_main())
