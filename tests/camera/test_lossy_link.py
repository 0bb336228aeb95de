"""Watching over a bad network: a user-space relay between a real viewer and the camera."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import av
import pytest

from tests.support.relay import Weather, relayed
from tests.support.serving import serving
from tests.support.stand_in import StandInCamera


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=640, height=360, gop_s=1.0) as running:
        yield running


async def test_it_stays_playable_with_three_percent_loss_and_delay(camera: StandInCamera) -> None:
    weather = Weather()
    decoder = av.CodecContext.create("h264", "r")
    pictures, gaps, last_s = 0, [], None
    async with serving(camera) as server, asyncio.timeout(60):
        async with relayed(server.whep, weather) as (stream, relay):
            async for unit in stream:
                weather.loss, weather.delay_s = 0.03, 0.02  # from the first picture on
                now_s = time.monotonic()
                if last_s is not None:
                    gaps.append(now_s - last_s)
                last_s = now_s
                pictures += len(decoder.decode(av.Packet(unit.data)))
                if pictures >= 100:
                    break
        assert relay.num_lost > 0
    assert max(gaps) < 5  # the stream goes on; how long it stutters is for bench/loss.py


async def test_a_viewer_with_heavy_loss_gets_the_smaller_rendition_and_others_do_not(
    camera: StandInCamera,
) -> None:
    weather = Weather(delay_s=0.01)
    async with (
        serving(camera) as server,
        asyncio.timeout(90),
        relayed(server.whep, weather) as (stream, _relay),
        relayed(server.whep, Weather()) as (
            healthy,
            _,
        ),
    ):
        calm = asyncio.create_task(drain(healthy))
        async for _unit in stream:
            weather.loss = 0.25
            bad, good = server.viewers.stats()
            if bad.rendition == "sub":
                break
        assert good.rendition == "main"
        assert bad.loss > 0.05
        calm.cancel()
        await asyncio.gather(calm, return_exceptions=True)


async def drain(stream: object) -> None:
    async for _ in stream:  # type: ignore[attr-defined]
        pass
