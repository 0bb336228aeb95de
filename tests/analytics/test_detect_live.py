"""Detection over a real WHEP session: HTTP, ICE, DTLS, SRTP and a real H.264 stream on the loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from analytics import DetectorConfig, load_detector
from analytics.detect import FrameResult, run
from analytics.live_stream import LiveFrames
from base.errors import PeerError
from tests.analytics.clips import TINY_YOLOX
from tests.support.serving import TOKEN, serving
from tests.support.stand_in import StandInCamera


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180) as running:
        yield running


def first_results(url: str, token: str | None, count: int) -> list[FrameResult]:
    """The first results of a run that is then ended, as a person with Ctrl-C would."""
    results = []
    running = run(url, load_detector(TINY_YOLOX, DetectorConfig(min_score=0.1)), token=token)
    for result in running:
        results.append(result)
        if len(results) == count:
            break
    running.close()  # type: ignore[attr-defined]  # a generator has it
    return results


async def test_a_live_camera_gives_results_with_times_that_grow(camera: StandInCamera) -> None:
    async with asyncio.timeout(30), serving(camera, token=TOKEN) as server:
        results = await asyncio.to_thread(first_results, server.whep, TOKEN, 20)
    assert {(result["width"], result["height"]) for result in results} == {(320, 180)}
    times = [result["time_s"] for result in results]
    assert times[0] >= 0
    assert times == sorted(set(times))
    frames = [result["frame"] for result in results]
    assert frames == sorted(set(frames))


async def test_a_wrong_token_is_reported_by_the_iteration(camera: StandInCamera) -> None:
    async with asyncio.timeout(30), serving(camera, token=TOKEN) as server:
        with pytest.raises(PeerError, match="token is wrong"):
            await asyncio.to_thread(first_results, server.whep, "wrong", 1)


async def test_leaving_the_block_ends_the_session_at_the_camera(camera: StandInCamera) -> None:
    def take_one(url: str) -> int:
        with LiveFrames.connect(url, token=TOKEN) as stream:
            return next(iter(stream)).index

    async with asyncio.timeout(30), serving(camera, token=TOKEN) as server:
        assert await asyncio.to_thread(take_one, server.whep) >= 0
        while len(server.viewers):
            await asyncio.sleep(0.05)
