from __future__ import annotations

import numpy as np
import pytest
from av.video.frame import VideoFrame

from base.errors import MediaError
from camera.sources.convert import clear_frame
from tests.support.media import picture


def gray(level: int, pixel_format: str, width: int = 32, height: int = 16) -> VideoFrame:
    rgb = np.full((height, width, 3), level, np.uint8)
    return VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format=pixel_format)


def test_plain_420_passes_unchanged() -> None:
    source = picture(3)
    frame = clear_frame(source, 5)
    planes = source.to_ndarray()  # I420: Y, then U, then V
    assert np.array_equal(frame.luma_hw, planes[:120])
    assert np.array_equal(frame.cb_hw.ravel(), planes[120:150].ravel())
    assert np.array_equal(frame.cr_hw.ravel(), planes[150:].ravel())
    assert frame.time_us == 5


@pytest.mark.parametrize("pixel_format", ["rgb24", "gray", "yuv444p", "yuyv422", "nv12", "yuv420p10le"])
def test_any_format_becomes_limited_range_420(pixel_format: str) -> None:
    frame = clear_frame(gray(255, pixel_format), 0)
    assert frame.luma_hw.shape == (16, 32)
    assert abs(int(frame.luma_hw.mean()) - 235) <= 1  # white in limited range (BT.601)
    assert abs(int(frame.cb_hw.mean()) - 128) <= 1


def test_full_range_is_converted_to_limited() -> None:
    full = VideoFrame.from_ndarray(np.full((24, 32), 255, np.uint8), format="yuvj420p")
    assert int(clear_frame(full, 0).luma_hw.max()) == 235


def test_odd_sizes_lose_a_row_and_a_column() -> None:
    frame = clear_frame(picture(0, 33, 17), 0)
    assert frame.luma_hw.shape == (16, 32)
    assert frame.cb_hw.shape == (8, 16)


def test_planes_are_contiguous_and_outlive_the_picture() -> None:
    frame = clear_frame(picture(1, 34, 18), 0)
    before = frame.luma_hw.copy()
    picture(2, 34, 18)
    assert frame.luma_hw.flags.c_contiguous
    assert np.array_equal(frame.luma_hw, before)


def test_a_picture_too_small_to_halve_is_refused() -> None:
    with pytest.raises(MediaError, match="1x1"):
        clear_frame(gray(0, "rgb24", 1, 1), 0)
