from __future__ import annotations

import threading
import time

import hypothesis.strategies as st
from hypothesis import given

from camera.sources.captured import Captured
from camera.sources.convert import clear_frame
from camera.stage_queue import CameraQueue, StageQueue, merge
from tests.support.media import picture, sealed

_PICTURE = picture(0, 16, 16)


def captured(packets: str, boundary: int | None = None, *, gap: bool = False, time_us: int = 0) -> Captured:
    """One letter per packet."""
    data = tuple(sealed(0, letter.encode()) for letter in packets)
    frame = clear_frame(_PICTURE, time_us)
    key = boundary is not None and not gap
    return Captured(_PICTURE, frame, data, boundary, key, gap, (), 0, time_us, time_us)


def letters(item: Captured) -> str:
    return b"".join(packet.data for packet in item.packets).decode()


def test_a_full_queue_makes_a_file_s_reader_wait() -> None:
    waiting: StageQueue[int] = StageQueue(2)
    writer = threading.Thread(target=lambda: [waiting.put(n) for n in range(5)])
    writer.start()
    time.sleep(0.05)
    assert writer.is_alive()
    got = []
    for item in waiting:
        got.append(item)
        if len(got) == 5:
            waiting.end()
    writer.join(5)
    assert got == [0, 1, 2, 3, 4]


def test_a_camera_s_oldest_picture_is_dropped_and_its_packets_move_on() -> None:
    camera = CameraQueue(2)
    for number, packets in enumerate(("ab", "c", "d", "e")):
        camera.put(captured(packets, time_us=number))
    camera.end()
    items = list(camera)
    assert [item.time_us for item in items] == [2, 3]
    assert [letters(item) for item in items] == ["abcd", "e"]
    assert camera.num_dropped == 2


@given(st.lists(st.text("abc", max_size=3), max_size=20), st.integers(1, 4))
def test_no_packet_is_ever_lost_or_reordered(groups: list[str], size: int) -> None:
    camera = CameraQueue(size)
    for packets in groups:
        camera.put(captured(packets))
    camera.end()
    assert "".join(letters(item) for item in camera) == "".join(groups)


def test_a_dropped_key_picture_leaves_its_boundary() -> None:
    both = merge(captured("abK", 2), captured("d"))
    assert (letters(both), both.boundary, both.source_key) == ("abKd", 2, True)


def test_the_later_of_two_boundaries_wins() -> None:
    both = merge(captured("aK", 1), captured("bL", 1))
    assert (letters(both), both.boundary) == ("aKbL", 3)


def test_a_discontinuity_keeps_its_place() -> None:
    both = merge(captured("aG", 1, gap=True), captured("bL", 1))
    assert (both.boundary, both.discontinuity) == (1, True)


def test_aborting_frees_a_writer_that_waits() -> None:
    waiting: StageQueue[int] = StageQueue(1)
    waiting.put(1)
    results: list[bool] = []
    writer = threading.Thread(target=lambda: results.append(waiting.put(2)))
    writer.start()
    waiting.abort()
    writer.join(5)
    assert results == [False]
    assert list(waiting) == []
