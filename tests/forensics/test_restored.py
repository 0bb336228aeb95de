from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from base.errors import AuthenticationFailed, UsageError
from base.frames import ClearFrame
from forensics.restored import (
    NotEvidence,
    RestoredLabel,
    RestoredOrigin,
    Sign,
    bar_rows,
    find_label,
    has_picture_label,
    refuse_restored,
)
from forensics.restored_writer import RestoredWriter
from tests.forensics.recordings import Recording, ffmpeg, pixels

ORIGIN = RestoredOrigin("ab" * 32, "12" * 8)
SIZES = [(128, 96), (320, 240), (640, 360), (1280, 720)]


def picture(width: int, height: int, number: int = 0) -> ClearFrame:
    """Noise: the hardest background for a label."""
    rng = np.random.default_rng(number)
    luma = rng.integers(16, 236, (height, width), np.uint8)
    chroma = rng.integers(16, 241, (height // 2, width // 2), np.uint8)
    return ClearFrame(luma, chroma, chroma, number * 40_000)


def write(path: Path, width: int = 320, height: int = 240, count: int = 4) -> Path:
    with RestoredWriter(path, width, height, ORIGIN) as writer:
        for number in range(count):
            writer.write(picture(width, height, number))
    return path


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_label_is_visible_in_the_bar_and_over_the_whole_picture(width: int, height: int) -> None:
    clear = picture(width, height)
    marked = RestoredLabel(width, height).apply(clear)
    assert has_picture_label(marked.luma_hw)
    assert not has_picture_label(clear.luma_hw)
    changed = marked.luma_hw.astype(int) - clear.luma_hw
    for rows in np.array_split(
        changed[: -bar_rows(height)], 2
    ):  # cropping the bar leaves words in both halves
        assert (np.abs(rows) > 15).mean() > 0.004
    assert (marked.time_us, marked.luma_hw.shape) == (clear.time_us, clear.luma_hw.shape)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_a_restored_file_carries_its_label_three_times(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"restored{suffix}")
    assert find_label(path) == (Sign.METADATA, Sign.STREAM, Sign.PICTURE)
    assert len(pixels(path)) == 4
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(NotEvidence, match="never evidence"):
        refuse_restored(path)
    assert issubclass(NotEvidence, AuthenticationFailed)  # exit status 3


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["-c", "copy", "-map_metadata", "-1"], {Sign.STREAM, Sign.PICTURE}),
        (["-c", "copy", "-bsf:v", "filter_units=remove_types=6"], {Sign.METADATA, Sign.PICTURE}),
        (["-map_metadata", "-1", "-c:v", "libx264", "-crf", "30", "-preset", "ultrafast"], {Sign.PICTURE}),
        (["-map_metadata", "-1", "-vf", "scale=200:150", "-c:v", "mpeg4", "-q:v", "6"], {Sign.PICTURE}),
        (["-map_metadata", "-1", "-vf", "scale=640:480", "-c:v", "mjpeg", "-q:v", "8"], {Sign.PICTURE}),
    ],
    ids=["metadata gone", "SEI gone", "re-encoded", "smaller, other codec", "larger, other codec"],
)
def test_ordinary_handling_never_removes_every_sign(
    arguments: list[str], left: set[Sign], tmp_path: Path
) -> None:
    path, handled = write(tmp_path / "restored.mp4"), tmp_path / "handled.mkv"
    ffmpeg("-i", path, *arguments, handled)
    assert left <= set(find_label(handled))
    with pytest.raises(NotEvidence):
        refuse_restored(handled)


def test_recordings_and_originals_are_not_taken_for_restored(recording: Recording, tmp_path: Path) -> None:
    assert recording.source is not None
    for path in (recording.path, recording.source):
        assert find_label(path) == ()
        refuse_restored(path)
    text = tmp_path / "text.mp4"
    text.write_bytes(b"no video")
    assert find_label(text) == ()


def test_pictures_at_chance_never_look_labelled() -> None:
    for number in range(60):
        assert not has_picture_label(picture(160, 96, number).luma_hw)
    bars = np.tile(np.repeat(np.array([16, 235], np.uint8), 8), (96, 20))  # a fence
    assert not has_picture_label(bars)


def test_the_same_pictures_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.mp4"), write(tmp_path / "b.mp4")
    assert first.read_bytes() == second.read_bytes()


def test_an_error_leaves_nothing_and_a_bad_ending_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="stop"),
        RestoredWriter(tmp_path / "x.mp4", 320, 240, ORIGIN) as writer,
    ):
        writer.write(picture(320, 240))
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="restored pictures go into"):
        RestoredWriter(tmp_path / "x.ts", 320, 240, ORIGIN)
