"""What loss and delay do to a viewer: a table of freezes, key frame requests and rate.

    python -m bench.loss [--seconds 20] [--loss 0 1 3 5] [--delay 20 100] [--json]

The camera is the tests' stand-in (real encoder, sealer, broadcast); between it and each viewer is a
user-space relay that loses and delays in both directions. A freeze is a gap of more than 0.5 s between two
pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from dataclasses import asdict, dataclass
from itertools import pairwise

import av

from analytics.whep_client import ClientOptions
from tests.support.relay import Weather, relayed
from tests.support.serving import serving
from tests.support.stand_in import StandInCamera

FREEZE_S = 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the table."""

    loss_percent: float
    delay_ms: float
    rendition: str  # asked for
    pictures_per_s: float
    decoded_share: float
    freezes: int
    longest_gap_ms: float
    key_frame_requests: int
    skips: int
    mbit_s: float
    ended_as: str


async def measure(camera: StandInCamera, loss: float, delay_s: float, rendition: str, seconds: float) -> Row:
    """Watch for ``seconds`` after the first picture."""
    weather = Weather(delay_s=delay_s)
    decoder = av.CodecContext.create("h264", "r")
    times: list[float] = []
    decoded = num_bytes = 0
    options = ClientOptions(rendition="auto" if rendition == "auto" else "main")
    async with serving(camera) as server, relayed(server.whep, weather, options) as (stream, _relay):
        end_s, stats = None, None
        async for unit in stream:
            weather.loss = loss
            now_s = time.monotonic()
            end_s = end_s or now_s + seconds
            times.append(now_s)
            num_bytes += len(unit.data)
            stats = next(iter(server.viewers.stats()), stats)  # a viewer who is lost is not in it any more
            try:
                decoded += len(decoder.decode(av.Packet(unit.data)))
            except av.InvalidDataError:
                stream.request_key_frame()
            if now_s > end_s:
                break
    gaps = [later - earlier for earlier, later in pairwise(times)]
    span_s = times[-1] - times[0] if gaps else math.inf
    return Row(
        loss_percent=100 * loss,
        delay_ms=1000 * delay_s,
        rendition=rendition,
        pictures_per_s=round(len(gaps) / span_s, 2),
        decoded_share=round(decoded / max(len(times), 1), 3),
        freezes=sum(gap > FREEZE_S for gap in gaps),
        longest_gap_ms=round(1000 * max(gaps, default=0)),
        key_frame_requests=stats.key_frame_requests if stats else 0,
        skips=stats.skips if stats else 0,
        mbit_s=round(8e-6 * num_bytes / span_s, 2),
        ended_as=stats.rendition if stats else "no picture",
    )


async def run(options: argparse.Namespace) -> list[Row]:
    rows = []
    with StandInCamera(width=1280, height=720, gop_s=2.0, sealed_bytes_per_frame=1000) as camera:
        for rendition in ("main", "auto"):
            for delay_ms in options.delay:
                for loss in options.loss:
                    rows.append(
                        await measure(camera, loss / 100, delay_ms / 1000, rendition, options.seconds)
                    )
                    if not options.json:
                        print(
                            "  ".join(f"{name}={value}" for name, value in asdict(rows[-1]).items()),
                            flush=True,
                        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.loss", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--loss", type=float, nargs="+", default=[0, 1, 3, 5], help="percent")
    parser.add_argument("--delay", type=float, nargs="+", default=[20, 100], help="milliseconds, one way")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = asyncio.run(run(options))
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
