"""The gop carrier: gathered, thinned out as a recorder does it, and put back exactly."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from codec.access_unit import AccessUnit
from codec.carrier import gather, restore
from codec.container import ContainerWriter, read_access_units
from codec.segments import read_segments
from codec.sei import SeiKind, pack_veilcam, veilcam_kind
from codec.unseal import open_segment
from codec.verify import check_segment
from tests.support.streams import Stream, build_stream


def segments_of(stream: Stream) -> list[list[AccessUnit]]:
    found: list[list[AccessUnit]] = []
    for unit in stream.units:
        if unit.is_keyframe:
            found.append([])
        found[-1].append(unit)
    return found


def gathered(stream: Stream) -> list[AccessUnit]:
    return [unit for segment in segments_of(stream) for unit in gather(segment)]


STREAM = build_stream("KPPPP|KPPPP|KPPP", num_bytes=700)


def test_only_key_frames_hold_our_sei_then_and_restoring_gives_the_same_bytes() -> None:
    units = gathered(STREAM)
    for unit in units:
        kinds = {veilcam_kind(nal) for nal in unit.nals} - {None}
        assert bool(kinds) == unit.is_keyframe
    assert tuple(restore(units)) == STREAM.units


def test_streams_that_are_not_gathered_pass_unchanged() -> None:
    assert tuple(restore(STREAM.units)) == STREAM.units


def test_it_verifies_and_opens_after_a_recorder_dropped_all_other_sei() -> None:
    units = [unit if unit.is_keyframe else unit.without_veilcam() for unit in gathered(STREAM)]
    evidence = replace(STREAM, units=tuple(restore(units))).check()
    assert "|".join(one.letters for one in evidence) == "AAAAA|AAAAA|AAAA"
    packets = sum(
        len(open_segment(view, [STREAM.identity]).packets) for view in read_segments(restore(units))
    )
    assert packets == len(STREAM.packets)


def test_a_lost_picture_takes_nothing_but_its_own_sei_with_it() -> None:
    units = gathered(STREAM)
    del units[2]
    assert tuple(restore(units)) == tuple(unit for n, unit in enumerate(STREAM.units) if n != 2)


def test_pictures_with_the_same_bytes_keep_their_order() -> None:
    segment = segments_of(STREAM)[0]
    twin = replace(segment[1], nals=(*segment[2].nals[:-1], segment[1].nals[-1]))
    units = [segment[0], segment[1], twin, *segment[3:]]
    assert tuple(restore(gather(units))) == tuple(units)


def test_through_a_file_and_ffmpeg(tmp_path: Path) -> None:
    from tests.vectors.make_vectors import CAMERA, HEIGHT, WIDTH, make  # noqa: PLC0415

    made = make("KPPPPPPPPP|KPPPPPPPPP")
    source, copy = tmp_path / "gop.mp4", tmp_path / "copy.mkv"
    with ContainerWriter(source, WIDTH, HEIGHT) as writer:
        for start in (0, 10):
            for unit in gather(made.units[start : start + 10]):
                writer.write(unit)
    subprocess.run(
        ["ffmpeg", "-hide_banner", "-loglevel", "error", "-i", str(source), "-c", "copy", str(copy)],
        check=True,
    )
    with read_access_units(copy) as reader:
        letters = [check_segment(view, CAMERA.public, None).letters for view in read_segments(reader)]
    assert letters == ["A" * 10, "A" * 10]


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_whatever_a_carried_message_holds_is_put_aside_or_back(bodies: list[bytes]) -> None:
    key, *rest = segments_of(STREAM)[0]
    damaged = key.with_sei([pack_veilcam(SeiKind.CARRIED, body) for body in bodies])
    out = list(restore([damaged, *rest]))
    assert len(out) == len(rest) + 1
    assert [unit.pts_us for unit in out] == [unit.pts_us for unit in (key, *rest)]
