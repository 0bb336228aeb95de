from __future__ import annotations

import cv2
import numpy as np
import pytest

from analytics.elf.types import Tile
from analytics.pool.tiles import cut, frame_bgr
from base.errors import UsageError
from base.frames import ClearFrame, ProtectedFrame

RANDOM = np.random.default_rng(3)


def frame(width: int = 96, height: int = 64) -> ProtectedFrame:
    luma = RANDOM.integers(16, 235, (height, width), np.uint8)
    chroma = [RANDOM.integers(16, 240, (height // 2, width // 2), np.uint8) for _ in range(2)]
    return ProtectedFrame(luma, chroma[0], chroma[1], 0)


@pytest.mark.parametrize("box", [(0, 0, 96, 64), (3, 5, 31, 17), (10, 8, 20, 20), (95, 63, 1, 1)])
def test_a_tile_has_exactly_the_pixels_of_its_place(box: tuple[int, int, int, int]) -> None:
    whole = frame()
    left, top, width, height = box
    piece = cut(whole, Tile(left, top, width, height, "a"))
    expected = frame_bgr(whole)[top : top + height, left : left + width]
    assert np.array_equal(piece.image_bgr_hwc, expected)


def test_a_smaller_tile_has_the_size_that_the_plan_says_and_shows_the_same() -> None:
    smooth = cv2.resize(RANDOM.integers(40, 200, (6, 8), np.uint8), (160, 120), interpolation=cv2.INTER_CUBIC)
    half = np.full((60, 80), 128, np.uint8)
    whole = ProtectedFrame(np.asarray(smooth, np.uint8), half, half.copy(), 0)
    tile = Tile(20, 10, 101, 77, "a", 0.4)
    piece = cut(whole, tile)
    assert piece.image_bgr_hwc.shape[1::-1] == tile.sent_wh
    expected = cv2.resize(
        cut(whole, Tile(20, 10, 101, 77, "a")).image_bgr_hwc, tile.sent_wh, interpolation=cv2.INTER_AREA
    )
    assert np.abs(piece.image_bgr_hwc.astype(int) - expected).mean() < 3


def test_a_clear_frame_is_refused() -> None:
    protected = frame()
    clear = ClearFrame(protected.luma_hw, protected.cb_hw, protected.cr_hw, 0)
    with pytest.raises(UsageError, match="ProtectedFrame"):
        cut(clear, Tile(0, 0, 8, 8, "a"))  # type: ignore[arg-type]


def test_a_tile_outside_the_frame_is_refused() -> None:
    with pytest.raises(UsageError, match="reaches out"):
        cut(frame(), Tile(90, 0, 10, 10, "a"))


def test_a_tile_is_coded_once() -> None:
    piece = cut(frame(), Tile(0, 0, 64, 64, "a"))
    first = piece.jpeg(80)
    assert piece.jpeg(80) is first
    decoded = cv2.imdecode(np.frombuffer(first, np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    assert decoded.shape == (64, 64, 3)
