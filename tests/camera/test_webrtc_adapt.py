"""Renditions: who gets which, by his link; the switch itself; pacing and coalesced key frame requests."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import av
import pytest

from camera.broadcast import Broadcast
from camera.rendition import SubRendition, scaled_size
from camera.webrtc.adapt import CALM_S, Adapter, LinkReport
from camera.webrtc.pacer import TokenBucket
from camera.webrtc.track import PacketTrack
from codec.access_unit import AccessUnit
from codec.h264 import BT709_LIMITED
from codec.segments import read_segments
from codec.verify import check_segment
from keys import CameraKey
from tests.support.stand_in import StandInCamera, draw


@pytest.fixture
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(gop_s=0.5) as running:
        yield running


def run(reports: list[LinkReport], adapter: Adapter | None = None, start_s: float = 0.0) -> list[str]:
    adapter = adapter or Adapter()
    return [adapter.report(report, start_s + number) for number, report in enumerate(reports)]


GOOD, BAD, TERRIBLE = LinkReport(0.0, 0.02), LinkReport(0.08, 0.02), LinkReport(0.3, 0.02)


@pytest.mark.parametrize(
    ("reports", "last"),
    [
        ([GOOD] * 20, "main"),
        ([GOOD, BAD, GOOD, BAD, GOOD], "main"),  # single bursts are repaired by retransmission
        ([GOOD, BAD, BAD], "sub"),
        ([GOOD, TERRIBLE], "sub"),
        ([GOOD, LinkReport(0.0, 0.5)], "sub"),  # a queue that fills
        ([LinkReport(0.0, 0.5)] * 5, "main"),  # a long way is not a bad one
        ([GOOD, LinkReport(0.0, 0.02, skips=1)], "sub"),
        ([TERRIBLE, *[GOOD] * (int(CALM_S) + 2)], "main"),
        ([TERRIBLE, *[LinkReport(0.03)] * 40], "sub"),
    ],
)
def test_the_link_decides(reports: list[LinkReport], last: str) -> None:
    assert run(reports)[-1] == last


def test_a_link_that_fails_again_after_each_rise_is_tried_less_and_less_often() -> None:
    adapter, rises, last = Adapter(), [], "main"
    for second in range(200):
        bad = adapter.rendition == "main"
        now = adapter.report(TERRIBLE if bad else GOOD, float(second))
        if (last, now) == ("sub", "main"):
            rises.append(second)
        last = now
    gaps = [later - earlier for earlier, later in itertools.pairwise(rises)]
    assert len(rises) <= 5
    assert gaps == sorted(gaps)
    assert gaps[-1] > 2 * CALM_S


def test_the_bucket_lets_a_burst_through_and_spreads_the_rest() -> None:
    bucket = TokenBucket(rate_bps=8000, burst_bytes=1000)
    assert bucket.take(1000, 0.0) == 0.0
    assert bucket.take(500, 0.0) == pytest.approx(0.5)  # 500 bytes at 1000 bytes/s
    assert bucket.take(500, 1.0) == 0.0
    assert bucket.take(2000, 100.0) == pytest.approx(1.0)  # never more than one burst saved up


@pytest.mark.parametrize(
    ("size", "scale", "expected"),
    [
        ((1280, 720), 2, (640, 360)),
        ((100, 80), 4, (64, 64)),
        ((50, 40), 2, (50, 40)),
        ((642, 362), 3, (214, 120)),
    ],
)
def test_the_smaller_picture_is_even_and_not_tiny(
    size: tuple[int, int], scale: int, expected: tuple[int, int]
) -> None:
    assert scaled_size(*size, scale) == expected


async def test_a_track_changes_rendition_at_key_frames_and_every_picture_decodes(
    camera: StandInCamera,
) -> None:
    track = PacketTrack(camera.broadcast, "test", camera.request_key_frame, sub=camera.sub)
    packets, sizes = [], []
    async with asyncio.timeout(30):
        for wanted in ("main", "sub", "main"):
            track.switch(wanted)
            while track.rendition != wanted:
                packets.append(await track.recv())
            packets += [await track.recv() for _ in range(8)]
    track.stop()
    decoder = av.CodecContext.create("h264", "r")
    for packet in packets:
        sizes += [(frame.width, frame.height) for frame in decoder.decode(av.Packet(bytes(packet)))]
    sizes += [(frame.width, frame.height) for frame in decoder.decode(None)]
    assert len(sizes) == len(packets)
    assert [size for size, before in zip(sizes, [None, *sizes], strict=False) if size != before] == [
        (640, 360),
        (320, 180),
        (640, 360),
    ]
    times = [Fraction(packet.pts or 0, 1_000_000) for packet in packets]
    assert times == sorted(set(times))
    assert camera.sub.broadcast.num_subscribers == 0
    assert camera.broadcast.num_subscribers == 0


async def test_the_smaller_rendition_is_signed_by_the_camera(camera: StandInCamera) -> None:
    subscription = camera.sub.broadcast.subscribe("test")
    units: list[AccessUnit] = []
    async with asyncio.timeout(30):
        while len(units) < 40:
            unit = await asyncio.to_thread(subscription.get, 5.0)
            assert unit is not None
            units.append(unit.unit)
    camera.sub.broadcast.unsubscribe(subscription)
    evidence = [check_segment(view, camera.camera_key.public, None) for view in read_segments(units)]
    assert set("".join(segment.letters for segment in evidence[1:-1])) == {"A"}


async def test_without_viewers_nothing_is_coded(camera: StandInCamera) -> None:
    await asyncio.sleep(0.3)
    assert camera.sub.broadcast.idle_s is None


def test_picture_loss_of_many_viewers_makes_few_key_frames() -> None:
    broadcast = Broadcast()
    rendition = SubRendition(broadcast, CameraKey.generate("gate"), scale=2, crf=30)
    subscription = broadcast.subscribe("test")
    for number in range(50):  # two seconds, and somebody asks all the time
        rendition.key_requested.set()
        frame = replace(draw(320, 180, number), time_us=number * 40_000)
        rendition.push(
            frame, cut=number == 0, rate=Fraction(25), colour=BT709_LIMITED, model_id=bytes(8), strength=0
        )
    rendition.close()
    starts = [unit.unit.pts_us for unit in subscription if unit.starts_segment]
    assert starts == [0, 520_000, 1_040_000, 1_560_000]
