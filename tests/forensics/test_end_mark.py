from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from base.frames import ProtectedFrame
from codec.access_unit import AccessUnit
from codec.h264 import ProtectedEncoder
from codec.records import SealedMode
from codec.sealer import SealerParams, SegmentSealer
from forensics.verdict import Verdict
from forensics.verify_file import verify
from tests.forensics.recordings import (
    FRAME_US,
    GOP,
    HEIGHT,
    RATE,
    START_US,
    WIDTH,
    camera_key,
    draw,
    write_units,
)


def _units(*, ends: bool) -> list[AccessUnit]:
    params = SealerParams(WIDTH, HEIGHT, Fraction(1, 1_000_000), b"\x5a" * 8, 1, SealedMode.NONE)
    sealer = SegmentSealer(camera_key(), None, params)
    encoder = ProtectedEncoder(WIDTH, HEIGHT, rate=RATE, preset="ultrafast")
    done = []
    for number in range(3 * GOP):
        frame: ProtectedFrame = draw(number, START_US + number * FRAME_US)
        starts = number % GOP == 0
        done += sealer.push(encoder.encode(frame, starts), starts_segment=starts)
    return [each.unit for each in (*done, *sealer.finish(ends_stream=ends))]


@pytest.fixture(scope="module")
def ended() -> list[AccessUnit]:
    return _units(ends=True)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
def test_a_finished_recording_is_told_from_one_that_is_cut_between_segments(
    suffix: str, tmp_path: Path, ended: list[AccessUnit]
) -> None:
    whole = write_units(tmp_path / f"whole{suffix}", ended)
    cut = write_units(tmp_path / f"cut{suffix}", ended[: 2 * GOP])
    found = verify(whole, camera_key().public)
    assert (found.verdict, found.conclusion.has_end_mark) == (Verdict.AUTHENTIC, True)
    assert "signed: the camera stopped here" in found.text()
    found = verify(cut, camera_key().public)
    assert (found.verdict, found.conclusion.has_end_mark) == (Verdict.AUTHENTIC, False)
    assert "without the end mark" in found.text()
    assert found.as_json()["has_end_mark"] is False


def test_who_demands_the_end_gets_a_gap_without_it(tmp_path: Path, ended: list[AccessUnit]) -> None:
    whole = write_units(tmp_path / "whole.mp4", ended)
    cut = write_units(tmp_path / "cut.mp4", ended[: 2 * GOP])
    assert verify(whole, camera_key().public, may_go_on=False).verdict is Verdict.AUTHENTIC
    found = verify(cut, camera_key().public, may_go_on=False)
    assert (found.verdict, found.exit_code) == (Verdict.GAPS, 3)
    assert found.conclusion.causes == ("ends without the camera's end mark",)


def test_a_recording_without_a_mark_is_authentic_as_before(tmp_path: Path) -> None:
    found = verify(write_units(tmp_path / "old.mp4", _units(ends=False)), camera_key().public)
    assert (found.verdict, found.conclusion.has_end_mark) == (Verdict.AUTHENTIC, False)


def test_without_the_camera_s_key_nothing_is_said_about_the_end(
    tmp_path: Path, ended: list[AccessUnit]
) -> None:
    found = verify(write_units(tmp_path / "whole.mp4", ended), None)
    assert found.conclusion.lacks_only_key
    assert not found.conclusion.has_end_mark
    assert "not checked: no key given" in found.text()


def test_the_mark_of_a_stream_that_another_one_follows_is_not_the_end_of_the_recording(
    tmp_path: Path, ended: list[AccessUnit]
) -> None:
    later = _units(ends=False)
    found = verify(write_units(tmp_path / "two.mp4", [*ended, *later]), camera_key().public)
    assert not found.conclusion.has_end_mark
