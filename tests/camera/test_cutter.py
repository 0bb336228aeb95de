from __future__ import annotations

import pytest

from base.errors import UsageError
from camera.cutter import CutRules, SegmentCutter

RATE = 10


def cuts(
    frames: int,
    *,
    follows_source: bool,
    keys: set[int] | None = None,
    requests: dict[int, int] | None = None,
    gaps: set[int] | None = None,
    rules: CutRules | None = None,
    num_bytes: int = 0,
) -> list[int]:
    """Frame numbers at which segments start; ``requests``: asked at frame a, pending until granted."""
    cutter = SegmentCutter(rules or CutRules(), follows_source=follows_source)
    pending = False
    starts = []
    for number in range(frames):
        pending = pending or number in (requests or {})
        cut = cutter.starts_segment(
            number * 1_000_000 // RATE,
            source_key=number in (keys or set()),
            discontinuity=number in (gaps or set()),
            requested=pending,
            num_bytes=num_bytes,
        )
        if cut:
            starts.append(number)
            pending = False
    return starts


def test_a_coded_layer_is_cut_at_the_target() -> None:
    assert cuts(61, follows_source=False) == [0, 20, 40, 60]


def test_a_copied_layer_is_cut_at_source_key_frames() -> None:
    assert cuts(61, follows_source=True, keys={0, 20, 40, 60}) == [0, 20, 40, 60]


def test_short_source_gops_are_joined_up_to_the_target() -> None:
    assert cuts(61, follows_source=True, keys=set(range(0, 61, 5))) == [0, 20, 40, 60]


def test_all_intra_sources_do_not_get_tiny_segments() -> None:
    starts = cuts(100, follows_source=True, keys=set(range(100)))
    assert starts == [0, 20, 40, 60, 80]


def test_long_source_gops_are_cut_hard_and_realigned_at_the_next_key_frame() -> None:
    assert cuts(121, follows_source=True, keys={0, 100}) == [0, 40, 80, 100]


def test_a_source_without_key_frames_is_cut_at_the_maximum() -> None:
    assert cuts(121, follows_source=True) == [0, 40, 80, 120]


def test_requests_are_granted_once_per_half_second() -> None:
    requests = {number: 1 for number in range(1, 20)}
    assert cuts(20, follows_source=False, requests=requests) == [0, 5, 10, 15]


def test_a_request_right_after_a_segment_start_waits() -> None:
    assert cuts(12, follows_source=False, requests={1: 1}) == [0, 5]


def test_a_gap_cuts_at_once() -> None:
    assert cuts(10, follows_source=True, keys={0}, gaps={1, 3}) == [0, 1, 3]


def test_a_segment_ends_when_it_holds_too_many_bytes() -> None:
    assert cuts(9, follows_source=False, rules=CutRules(max_bytes=300), num_bytes=100) == [0, 3, 6]


def test_contradictory_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="min <= target <= max"):
        CutRules(target_s=2, min_s=3, max_s=4)
