from __future__ import annotations

from dataclasses import replace

from codec.limits import Limits
from codec.segments import SegmentView, read_segments
from tests.support.streams import Stream, build_stream

S = build_stream("KPPP|KPPP|KPP")
FOREIGN = S.without_veilcam().units


def _shape(views: list[SegmentView]) -> list[tuple[int | None, str]]:
    """Segment index and frame indices; a frame of another segment is x, one without data is -."""
    shapes = []
    for view in views:
        own = {id(viewed): frame.frame_index for frame, viewed in view.own_units()}
        frames = "".join(
            str(own[id(viewed)]) if id(viewed) in own else "x" if viewed.frame else "-"
            for viewed in view.units
        )
        shapes.append((view.key.segment_index if view.key else None, frames))
    return shapes


def _groups(stream: Stream) -> list[tuple[int | None, str]]:
    return _shape(stream.views())


def test_an_intact_stream_falls_into_its_segments() -> None:
    assert _groups(S) == [(0, "0123"), (1, "0123"), (2, "012")]


def test_loss_of_any_units_keeps_segments_apart() -> None:
    assert _groups(S.drop(1, 5)) == [(0, "023"), (1, "023"), (2, "012")]
    assert _groups(S.drop(3, 4)) == [(0, "012"), (1, "123"), (2, "012")]
    assert _groups(S.drop(4, 5, 6, 7)) == [(0, "0123"), (2, "012")]


def test_a_clip_from_the_middle_is_grouped() -> None:
    assert _groups(S.cut(2, 9)) == [(0, "23"), (1, "0123"), (2, "0")]


def test_swapped_units_stay_in_their_segment() -> None:
    assert _groups(S.swap(5, 6)) == [(0, "0123"), (1, "0213"), (2, "012")]
    assert _groups(S.swap(4, 5)) == [(0, "0123"), (1, "1023"), (2, "012")]


def test_a_unit_swapped_across_a_border_stays_where_it_is_found() -> None:
    assert _groups(S.swap(2, 5)) == [(0, "01x3"), (1, "0x23"), (2, "012")]
    assert _groups(S.swap(3, 4)) == [(0, "012"), (1, "0x123"), (2, "012")]


def test_a_replayed_segment_is_a_segment_of_its_own() -> None:
    assert _groups(S.repeat(0, 4, 4)) == [(0, "0123"), (0, "0123"), (1, "0123"), (2, "012")]
    assert _groups(S.repeat(0, 1, 1)) == [(0, "0"), (0, "0123"), (1, "0123"), (2, "012")]


def test_units_without_our_data_stay_with_the_segment_around_them() -> None:
    assert _groups(S.without_veilcam(2)) == [(0, "01-3"), (1, "0123"), (2, "012")]
    assert _groups(S.insert(4, FOREIGN[1], FOREIGN[2])) == [(0, "0123--"), (1, "0123"), (2, "012")]


def test_an_unsigned_recording_spliced_in_is_apart() -> None:
    assert _groups(S.insert(4, *FOREIGN[:3])) == [(0, "0123"), (None, "---"), (1, "0123"), (2, "012")]
    assert _groups(S.without_veilcam()) == [(None, "----"), (None, "----"), (None, "---")]


def test_a_key_frame_with_damaged_data_stays_with_what_follows() -> None:
    damaged = S.flip_bit(4, nal=2, byte=22)  # type of the FRAME record
    assert _groups(damaged) == [(0, "0123"), (1, "-123"), (2, "012")]


def test_units_without_a_picture_are_dropped() -> None:
    sei_only = replace(S.units[1], nals=S.units[1].nals[:1])
    assert _groups(S.insert(2, sei_only)) == _groups(S)


def test_a_segment_above_the_limits_comes_in_pieces() -> None:
    views = list(read_segments(S.units, Limits(max_frames_per_segment=3)))
    assert _shape(views) == [(0, "012"), (0, "3"), (1, "012"), (1, "3"), (2, "012")]
    size = sum(unit.num_bytes for unit in S.units[:2])
    views = list(read_segments(S.units[:4], Limits(max_segment_bytes=size)))
    assert _shape(views)[0] == (0, "01")


def test_segments_are_given_out_while_units_arrive() -> None:
    taken = 0

    def units() -> object:
        nonlocal taken
        for unit in S.units:
            taken += 1
            yield unit

    segments = read_segments(units())  # type: ignore[arg-type]  # a generator of units
    next(segments)
    assert taken == 5
