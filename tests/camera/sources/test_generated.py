from __future__ import annotations

import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from base.errors import MediaError
from camera.sources import open_source
from tests.support.media import picture


def make_folder(folder: Path, names: list[str], size: tuple[int, int] = (64, 48)) -> Path:
    for number, name in enumerate(names):
        cv2.imwrite(str(folder / name), picture(number, *size, "rgb24").to_ndarray(format="bgr24"))
    return folder


def test_the_scene_is_the_same_for_the_same_seed() -> None:
    def luma(seed: int) -> list[bytes]:
        return [
            c.frame.luma_hw.tobytes() for c in open_source(f"synthetic:?size=128x96&seconds=0.2&seed={seed}")
        ]

    assert luma(7) == luma(7)
    assert luma(7) != luma(8)


def test_the_scene_moves_and_has_a_rate_and_a_length() -> None:
    frames = list(open_source("synthetic:?size=128x96&seconds=1&fps=10", start_unix_us=0))
    assert len(frames) == 10
    assert [c.time_us for c in frames] == [n * 100_000 for n in range(10)]
    assert not np.array_equal(frames[0].frame.luma_hw, frames[5].frame.luma_hw)
    assert frames[0].video_stream is None


def test_real_time_pacing_takes_the_time_that_the_pictures_say() -> None:
    began_s = time.monotonic()
    assert len(list(open_source("synthetic:?size=64x48&seconds=0.5&fps=20", realtime=True))) == 10
    assert 0.4 <= time.monotonic() - began_s < 1.5


def test_closing_ends_an_endless_scene() -> None:
    source = open_source("synthetic:?size=64x48")
    for number, _ in enumerate(source):
        if number == 3:
            source.close()
    assert source.state == "ended"


def test_a_folder_is_read_in_natural_order(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, ["2.png", "10.png", "1.png"])
    source = open_source(f"images:{folder}?fps=5", start_unix_us=0)
    frames = list(source)
    assert [c.time_us for c in frames] == [0, 200_000, 400_000]
    expected = [picture(n, 64, 48, "rgb24").reformat(format="yuv420p").to_ndarray()[:48] for n in (2, 0, 1)]
    for captured, luma in zip(frames, expected, strict=True):
        assert np.abs(captured.frame.luma_hw.astype(int) - luma).max() <= 2
    assert source.expected_pictures == 3


def test_an_empty_folder_and_mixed_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="no pictures"):
        list(open_source(str(tmp_path)))
    make_folder(tmp_path, ["a.png"])
    make_folder(tmp_path, ["b.png"], (32, 32))
    with pytest.raises(MediaError, match=r"b\.png: 32x32, expected 64x48"):
        list(open_source(str(tmp_path)))


def test_a_broken_picture_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(b"not a picture")
    with pytest.raises(MediaError, match=r"x\.jpg"):
        list(open_source(str(tmp_path)))
