"""The whole way: sealed segments through files that foreign tools wrote, and out again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from codec.access_unit import AccessUnit
from codec.container import ContainerWriter, read_access_units
from codec.segments import read_segments
from codec.unseal import open_segment
from codec.verify import SegmentEvidence, check_segment
from keys.suite import Suite
from tests.codec.media import ffmpeg
from tests.vectors.make_vectors import CAMERA, HEIGHT, WIDTH, identity, make

MADE = make("KPPPPPPPPP|KPPPPPPPPP|KPPPPPPPPP|KPPPPPPPPP")


def _letters(
    units: Iterable[AccessUnit], parameter_sets: tuple[bytes, ...] = (), *, may_be_cut: bool = False
) -> tuple[str, int]:
    """Evidence letters, and how many sealed packets open."""
    evidence: list[SegmentEvidence] = []
    num_packets = 0
    for view in read_segments(units):
        previous = evidence[-1] if evidence else None
        evidence.append(
            check_segment(view, CAMERA.public, previous, parameter_sets=parameter_sets, may_be_cut=may_be_cut)
        )
        num_packets += len(open_segment(view, [identity(Suite.X25519)]).packets)
    return "|".join(segment.letters for segment in evidence), num_packets


def _read(path: Path) -> tuple[str, int]:
    with read_access_units(path) as reader:
        return _letters(reader, reader.track.parameter_sets, may_be_cut=reader.last_may_be_cut)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("carriage") / "recording.mp4"
    writer = ContainerWriter(path, WIDTH, HEIGHT)
    for unit in MADE.units:
        writer.write(unit)
    writer.close()
    return path


def test_a_recording_verifies_and_opens(recording: Path) -> None:
    assert _letters(MADE.units) == ("|".join(["A" * 10] * 4), 80)
    assert _read(recording) == ("|".join(["A" * 10] * 4), 80)


@pytest.mark.parametrize(
    "chain", [["mp4"], ["mkv"], ["ts"], ["flv"], ["mov"], ["h264"], ["mkv", "ts", "flv", "mp4"]]
)
def test_it_still_does_after_ffmpeg_copied_it(recording: Path, chain: list[str], tmp_path: Path) -> None:
    path = recording
    for number, suffix in enumerate(chain):
        following = tmp_path / f"{number}.{suffix}"
        ffmpeg("-i", path, "-c", "copy", following)
        path = following
    assert _read(path) == ("|".join(["A" * 10] * 4), 80)


def test_a_clip_that_ffmpeg_cut_from_the_middle_opens_alone(recording: Path, tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    ffmpeg("-ss", "0.45", "-t", "0.8", "-i", recording, "-c", "copy", clip)
    letters, num_packets = _read(clip)
    assert letters.startswith("A" * 10 + "|")
    assert set(letters) <= set("AU|")
    assert num_packets >= 20


def test_a_file_cut_anywhere_opens_up_to_the_cut_and_is_not_called_tampered(
    recording: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.ts"
    ffmpeg("-i", recording, "-c", "copy", whole)
    data = whole.read_bytes()
    short = tmp_path / "short.ts"
    for share in (0.4, 0.55, 0.7, 0.85, 0.97):
        short.write_bytes(data[: int(len(data) * share)])
        letters, num_packets = _read(short)
        assert letters.startswith("A" * 10 + "|")
        assert "T" not in letters
        assert num_packets >= 20


def test_reencoding_leaves_an_unsigned_video(recording: Path, tmp_path: Path) -> None:
    path = tmp_path / "again.mp4"
    ffmpeg("-i", recording, "-c:v", "libx264", "-preset", "ultrafast", path)
    with read_access_units(path) as reader:
        letters, num_packets = _letters(reader)
    assert set(letters) <= set("N|T")
    assert num_packets == 0
