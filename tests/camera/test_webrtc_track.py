"""A viewer that is too slow loses pictures; the camera does not notice and memory does not grow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import pytest
from aiortc.mediastreams import MediaStreamError

from camera.broadcast import QueueLimits
from camera.webrtc.track import PacketTrack, TrackOptions
from codec.access_unit import AccessUnit
from tests.support.stand_in import StandInCamera


@pytest.fixture
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180, fps=50, gop_s=1.0) as running:
        while running.broadcast.idle_s is None:
            time.sleep(0.01)
        yield running


def is_key(packet_bytes: bytes) -> bool:
    return AccessUnit.from_annexb(packet_bytes, 0).is_keyframe


async def test_packets_are_annexb_with_rising_times(camera: StandInCamera) -> None:
    track = PacketTrack(camera.broadcast, "test", camera.request_key_frame)
    packets = [await track.recv() for _ in range(60)]
    track.stop()
    assert is_key(bytes(packets[0]))
    assert bytes(packets[0]).startswith(b"\x00\x00\x00\x01")
    times = [packet.pts or 0 for packet in packets]
    assert all(packet.time_base == Fraction(1, 1_000_000) for packet in packets)
    assert all(a < b for a, b in pairwise(times))
    assert times[-1] in camera.times_us  # caught up: stamps are capture times again


async def test_a_full_queue_skips_to_a_key_frame_and_asks_for_one(camera: StandInCamera) -> None:
    options = TrackOptions(queue=QueueLimits(max_units=10, max_bytes=10**6))
    track = PacketTrack(camera.broadcast, "slow", camera.request_key_frame, options)
    await track.recv()
    out_before = camera.stats().frames_out
    async with asyncio.timeout(30):  # forty pictures for a queue of ten; a camera that waits never makes them
        while camera.stats().frames_out - out_before < 40:
            await asyncio.sleep(0.02)
    packets = [bytes(await track.recv()) for _ in range(40)]
    track.stop()
    assert track.counters.skips >= 1
    assert camera.num_key_requests >= 1
    assert any(is_key(packet) for packet in packets[:12])


async def test_a_viewer_that_lags_goes_on_with_the_present(camera: StandInCamera) -> None:
    track = PacketTrack(camera.broadcast, "late", camera.request_key_frame, TrackOptions(max_lag_us=300_000))
    for _ in range(80):
        await track.recv()  # joined and caught up
    await asyncio.sleep(0.8)
    for _ in range(60):
        packet = await track.recv()
    track.stop()
    assert packet.pts is not None
    assert time.time_ns() // 1000 - packet.pts < 300_000
    assert track.counters.skips >= 1


async def test_an_old_open_segment_is_not_replayed(camera: StandInCamera) -> None:
    await asyncio.sleep(0.5)
    track = PacketTrack(camera.broadcast, "test", camera.request_key_frame, TrackOptions(max_replay_us=0))
    before = camera.num_key_requests
    packet = await track.recv()
    track.stop()
    assert camera.num_key_requests == before + 1
    assert is_key(bytes(packet))
    assert packet.pts in camera.times_us


async def test_a_stopped_track_gives_its_queue_back_and_ends(camera: StandInCamera) -> None:
    track = PacketTrack(camera.broadcast, "test", camera.request_key_frame)
    await track.recv()
    assert camera.broadcast.num_subscribers == 1
    waiting = asyncio.create_task(drain(track))
    await asyncio.sleep(0.05)
    track.stop()
    with pytest.raises(MediaStreamError):
        await asyncio.wait_for(waiting, 30)
    assert camera.broadcast.num_subscribers == 0
    with pytest.raises(MediaStreamError):
        await track.recv()


async def drain(track: PacketTrack) -> None:
    while True:
        await track.recv()
