from __future__ import annotations

import time

import pytest

from analytics.live_stream import LiveFrames
from base.errors import MediaError, PeerError
from tests.analytics.clips import annexb_units, red_square
from tests.analytics.units import ScriptedUnits

PICTURES = [red_square(2 * index, 0) for index in range(12)]


def wait_for_index(stream: LiveFrames, num_decoded: int) -> None:
    deadline = time.monotonic() + 10
    while stream.num_decoded < num_decoded and time.monotonic() < deadline:
        time.sleep(0.01)


def test_pictures_come_out_in_order_with_times_from_zero() -> None:
    session = ScriptedUnits(annexb_units(PICTURES))
    with LiveFrames(session.opened, queue_frames=20) as stream:
        frames = list(stream)
    assert [frame.index for frame in frames] == list(range(12))
    assert [frame.time_s for frame in frames] == pytest.approx([index / 10 for index in range(12)])
    assert stream.num_frames is None
    assert stream.num_dropped == 0
    assert session.closed


def test_a_slow_reader_gets_the_newest_pictures() -> None:
    session = ScriptedUnits(annexb_units(PICTURES))
    with LiveFrames(session.opened, queue_frames=3) as stream:
        wait_for_index(stream, 12)
        frames = list(stream)
    assert [frame.index for frame in frames] == [9, 10, 11]
    assert stream.num_dropped == 9


def test_every_fourth_picture_is_taken_but_all_are_decoded() -> None:
    session = ScriptedUnits(annexb_units(PICTURES))
    with LiveFrames(session.opened, every=4, queue_frames=20) as stream:
        assert [frame.index for frame in stream] == [0, 4, 8]
    assert stream.num_decoded == 12


def test_a_unit_that_cannot_be_decoded_asks_for_a_key_frame() -> None:
    units = annexb_units(PICTURES)
    units[5] = b"\x00\x00\x00\x01\x41"  # a slice that ends before its header
    session = ScriptedUnits(units)
    with LiveFrames(session.opened, queue_frames=20) as stream:
        frames = list(stream)
    assert frames[-1].time_s == pytest.approx(1.1)
    assert 0 < stream.num_dropped <= 12 - len(frames)
    assert session.num_key_requests >= 1


def test_a_session_that_fails_raises_after_the_pictures_that_came() -> None:
    session = ScriptedUnits(annexb_units(PICTURES), end=PeerError("the camera went away"))
    with LiveFrames(session.opened, queue_frames=20) as stream:
        iterator = iter(stream)
        assert [next(iterator).index for _ in range(12)] == list(range(12))
        with pytest.raises(PeerError, match="the camera went away"):
            next(iterator)
    assert session.closed


def test_an_endpoint_that_refuses_raises_its_reason() -> None:
    async def refuse() -> ScriptedUnits:
        raise PeerError("HTTP status 404")

    with LiveFrames(refuse) as stream, pytest.raises(PeerError, match="404"):
        list(stream)


def test_an_unexpected_failure_still_wakes_the_reader() -> None:
    session = ScriptedUnits([], end=ZeroDivisionError())
    with LiveFrames(session.opened) as stream, pytest.raises(MediaError, match="ZeroDivisionError"):
        list(stream)


def test_closing_a_silent_session_ends_it() -> None:
    session = ScriptedUnits(annexb_units(PICTURES[:1]), end=False)
    stream = LiveFrames(session.opened)
    assert next(iter(stream)).index == 0
    stream.close()
    assert list(stream) == []
    assert session.closed


def test_closing_twice_is_harmless() -> None:
    stream = LiveFrames(ScriptedUnits([]).opened)
    stream.close()
    stream.close()
