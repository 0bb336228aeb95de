"""The order in which a container shows the pictures must be the signed one; its pace is only noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import av
import pytest

from codec.container import ContainerWriter
from codec.evidence import Verdict
from codec.segments import read_segments
from forensics.report import VerificationReport
from forensics.times import ContainerTimes
from forensics.verify_file import verify
from tests.forensics.recordings import GOP, HEIGHT, RATE, WIDTH, Recording, ffmpeg, seal_copy
from tests.support.streams import build_stream

SECOND_US = 1_000_000


def _retimed(recording: Recording, path: Path, change: Callable[[list[int]], Sequence[int]]) -> Path:
    """A copy with the same packets in the same order, shown at other times."""
    with av.open(str(recording.path)) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        packets = [packet for packet in source.demux(stream) if packet.size]
        second = round(1 / packets[0].time_base)
        times = [packet.pts or 0 for packet in packets]
        for packet, time in zip(packets, change(times), strict=True):
            packet.pts, packet.dts = time + 100 * second, packet.dts
            packet.stream = copy
            target.mux(packet)
    return path


def _swapped(times: list[int], first: int, second: int, length: int = 1) -> list[int]:
    swapped = list(times)
    swapped[first : first + length] = times[second : second + length]
    swapped[second : second + length] = times[first : first + length]
    return swapped


def _notes(report: VerificationReport) -> list[str]:
    return [text for row in report.segments for text in row.times]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts", ".flv", ".mov"])
def test_a_remux_has_nothing_odd_about_its_times(recording: Recording, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"remuxed{suffix}"
    ffmpeg("-i", recording.path, "-c", "copy", path)
    report = verify(path, recording.camera)
    assert (report.verdict, _notes(report)) == (Verdict.AUTHENTIC, [])


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts", ".flv"])
def test_a_gap_keeps_its_length_and_is_no_odd_time(recording: Recording, tmp_path: Path, suffix: str) -> None:
    assert recording.source is not None
    units = seal_copy(recording.source, every=60)
    with ContainerWriter(tmp_path / "gap.mp4", WIDTH, HEIGHT, rate=RATE) as writer:
        for unit in units[:12] + units[48:]:
            writer.write(unit)
    path = tmp_path / f"remuxed{suffix}"
    ffmpeg("-i", tmp_path / "gap.mp4", "-c", "copy", path)
    report = verify(path, recording.camera)
    assert (report.verdict, _notes(report)) == (Verdict.GAPS, [])


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_two_pictures_shown_in_the_other_order_are_tampering(
    recording: Recording, tmp_path: Path, suffix: str
) -> None:
    path = _retimed(recording, tmp_path / f"order{suffix}", lambda times: _swapped(times, 23, 26))
    report = verify(path, recording.camera)
    assert (report.verdict, report.exit_code) == (Verdict.TAMPERED, 3)
    assert report.conclusion.num_causes == 1
    assert report.conclusion.causes[0].startswith("segment 2: frame 4: shown 0.2")
    assert report.segments[2].letters == "A" * GOP
    assert report.segments[2].verdict is Verdict.TAMPERED
    assert [row.index for row in report.segments if row.verdict is not Verdict.AUTHENTIC] == [2]
    assert "segment 2   TAMPERED" in report.text()


def test_a_scene_shown_backwards_is_tampering(recording: Recording, tmp_path: Path) -> None:
    path = _retimed(recording, tmp_path / "backwards.mkv", lambda times: times[::-1])
    assert verify(path, recording.camera).verdict is Verdict.TAMPERED


def test_segments_shown_in_the_other_order_are_tampering(recording: Recording, tmp_path: Path) -> None:
    path = _retimed(recording, tmp_path / "segments.mkv", lambda times: _swapped(times, GOP, 3 * GOP, GOP))
    report = verify(path, recording.camera)
    assert report.verdict is Verdict.TAMPERED
    assert any("before the end of the segment" in cause for cause in report.conclusion.causes)


def test_pictures_shown_too_slowly_are_noted_and_authentic(recording: Recording, tmp_path: Path) -> None:
    path = _retimed(recording, tmp_path / "slow.mkv", lambda times: [3 * time for time in times])
    report = verify(path, recording.camera)
    assert report.verdict is Verdict.AUTHENTIC
    first = "frame 6: shown 1.200 s too late, counted from the segment's first picture"
    assert _notes(report) == [first] * 6
    assert report.as_json()["segments"][0]["times"] == [first]  # type: ignore[index, call-overload]
    assert f"times     segment 0: {first}" in report.text()


def test_joined_transport_streams_may_begin_anew_and_other_files_may_not() -> None:
    first, second = build_stream("KPP|KPP").views()
    early = replace(
        second,
        units=tuple(
            replace(viewed, unit=replace(viewed.unit, pts_us=viewed.unit.pts_us - 100 * SECOND_US))
            for viewed in second.units
        ),
    )
    for container, expected in (("mpegts", [False]), ("matroska,webm", [True]), ("h264", [])):
        times = ContainerTimes(container)
        assert times.check(first) == ()
        assert [note.is_reordered for note in times.check(early)] == expected


def test_pictures_shown_at_one_time_are_noted() -> None:
    units = build_stream("KPP").units
    (view,) = read_segments([units[0], replace(units[1], pts_us=units[0].pts_us), units[2]])
    (note,) = ContainerTimes("mov,mp4,m4a,3gp,3g2,mj2").check(view)
    assert not note.is_reordered
    assert note.text == "frame 1: shown at the time of the picture that it follows"
