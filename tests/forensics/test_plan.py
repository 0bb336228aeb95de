from __future__ import annotations

from dataclasses import replace

import pytest

from base.errors import UsageError
from codec.records import SealedMode
from forensics.plan import MAX_STEPS_BACK, Candidate, Plan, Proof, make_plan
from forensics.selection import TimeRange, parse_range

SECOND = 1_000_000
MAIN, OTHER = b"m" * 16, b"o" * 16


def _segment(ordinal: int, index: int, *, stream: bytes = MAIN) -> Candidate:
    return Candidate(
        ordinal=ordinal,
        name=f"segment {index}",
        stream_id=stream,
        index=index,
        start_us=index * SECOND,
        end_us=index * SECOND + 900_000,
        starts_with_key=True,
        mode=SealedMode.COPY,
        model_id=b"model id",
        is_ours=True,
        epoch_ref=b"epoch",
        is_signed=True,
        is_spliced=False,
        is_out_of_order=False,
        bad_frames=frozenset(),
    )


def _order(plan: Plan) -> list[int]:
    return [candidate.ordinal for candidate in plan.order]


def _withheld(plan: Plan) -> list[int]:
    return [candidate.ordinal for candidate in plan.withheld]


def test_segments_in_the_wrong_place_are_put_right() -> None:
    late = replace(_segment(2, 1), is_out_of_order=True)
    assert _order(make_plan([_segment(0, 0), _segment(1, 2), late], TimeRange())) == [0, 2, 1]


def test_disorder_that_would_read_the_file_too_often_is_left_alone() -> None:
    count = MAX_STEPS_BACK + 2
    reverse = [
        replace(_segment(ordinal, count - ordinal), is_out_of_order=ordinal > 0) for ordinal in range(count)
    ]
    plan = make_plan(reverse, TimeRange())
    assert _order(plan) == [0]
    assert len(plan.withheld) == count - 1


def test_of_repeats_the_signed_one_is_kept_even_if_it_comes_second() -> None:
    forged = replace(_segment(0, 0), is_signed=False)
    plan = make_plan([forged, _segment(1, 0), _segment(2, 0)], TimeRange())
    assert (_order(plan), _withheld(plan)) == ([1], [0, 2])


def test_unsigned_segments_count_only_under_a_key_that_signed_ones_use() -> None:
    lost = replace(_segment(1, 1), is_signed=False)
    forged = replace(_segment(2, 2), is_signed=False, epoch_ref=b"somebody's own")
    plan = make_plan([_segment(0, 0), lost, forged], TimeRange())
    assert (_order(plan), _withheld(plan)) == ([0, 1], [2])
    assert [plan.proof_of(segment) for segment in plan.order] == [Proof.SIGNED, Proof.SAME_KEY]


def test_where_nothing_is_signed_all_of_it_is_opened_and_called_unproven() -> None:
    plan = make_plan([replace(_segment(0, 0), is_signed=False)], TimeRange())
    assert [plan.proof_of(segment) for segment in plan.order] == [Proof.NONE]


def test_of_interleaved_streams_the_longest_is_kept() -> None:
    spliced = replace(_segment(2, 1), is_spliced=True)
    plan = make_plan([_segment(0, 0), _segment(1, 7, stream=OTHER), spliced], TimeRange())
    assert (_order(plan), _withheld(plan)) == ([0, 2], [1])


def test_a_stream_that_follows_another_is_kept() -> None:
    assert _order(make_plan([_segment(0, 5), _segment(1, 0, stream=OTHER)], TimeRange())) == [0, 1]


def test_a_segment_lasts_until_the_next_one_starts() -> None:
    """2.95 s lies behind the last picture of segment 2, which a player still shows."""
    segments = [_segment(n, n) for n in range(5)]
    assert _order(make_plan(segments, parse_range("2.95", "3"))) == [2]
    assert _order(make_plan(segments, parse_range("2.95", "3.000001"))) == [2, 3]
    assert _order(make_plan([segments[0], segments[2], segments[4]], parse_range("2.95", "4.1"))) == [4]


def test_a_range_in_a_gap_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="nothing is in it"):
        make_plan([_segment(0, 0), _segment(1, 9)], parse_range("3", "4"))


def test_the_start_goes_back_to_a_key_frame_only_through_segments_that_are_here() -> None:
    segments = [replace(_segment(n, n), starts_with_key=n == 0) for n in range(4)]
    assert _order(make_plan(segments, parse_range("2", "3"))) == [0, 1, 2]
    assert _order(make_plan([segments[0], segments[2], segments[3]], parse_range("3", None))) == [3]


def test_no_segment_at_all_is_an_empty_plan() -> None:
    assert make_plan([], parse_range("5", None)).order == ()
