from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import Malformed
from codec.fmp4 import box, fragment, fragment_times, full_box, init_segment, sample_durations, set_duration
from codec.nal import AvcConfig
from tests.codec.media import FRAME_US, protected_units

UNITS = protected_units()
CONFIG = AvcConfig(4, UNITS[0].parameter_sets()[:1], UNITS[0].parameter_sets()[1:])


def test_boxes_begin_with_size_and_name() -> None:
    assert box("free", b"ab", b"c") == b"\x00\x00\x00\x0bfreeabc"
    assert full_box("tfdt", 1, 2, b"x") == b"\x00\x00\x00\x0dtfdt\x01\x00\x00\x02x"


def test_duration_is_set_in_place() -> None:
    assert set_duration(init_segment(64, 48, CONFIG), 123_456_789_012) == init_segment(
        64, 48, CONFIG, 123_456_789_012
    )


def test_head_of_somebody_else_is_refused() -> None:
    with pytest.raises(Malformed, match="MP4 head"):
        set_duration(b"\x00\x00\x00\x08moov", 1)


def test_fragment_tells_its_times() -> None:
    data = fragment(3, 5_000_000, UNITS[:4], UNITS[0].pts_us + 4 * FRAME_US)
    moof_bytes = int.from_bytes(data[:4], "big")
    assert fragment_times(data[:moof_bytes]) == (5_000_000, 5_000_000 + 4 * FRAME_US)
    assert data[moof_bytes + 8 :] == b"".join(unit.avcc() for unit in UNITS[:4])


@given(st.binary(max_size=200))
def test_random_fragments_are_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        fragment_times(data)


@given(st.lists(st.integers(0, 10**16), min_size=1), st.integers(0, 10**16))
def test_durations_are_positive_and_fit(times_us: list[int], end_us: int) -> None:
    durations = sample_durations(times_us, end_us)
    assert len(durations) == len(times_us)
    assert all(1 <= duration < 2**32 for duration in durations)
