"""What finders look at: a small RGB picture made from the camera's planes."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

MULTIPLE = 32
"""Sides are multiples of this: both finders halve the picture five times."""


def fitted_size(height: int, width: int, longest_side: int) -> tuple[int, int]:
    """Height and width nearest to the picture's shape, the longer about ``longest_side``."""
    scale = longest_side / max(height, width)
    return _rounded(height * scale), _rounded(width * scale)


def _rounded(side: float) -> int:
    return max(MULTIPLE, round(side / MULTIPLE) * MULTIPLE)


def small_rgb(
    luma_hw: npt.NDArray[np.uint8],
    cb_hw: npt.NDArray[np.uint8],
    cr_hw: npt.NDArray[np.uint8],
    size_hw: tuple[int, int],
) -> npt.NDArray[np.uint8]:
    """[h, w, 3] in 0..255 from limited-range planes (BT.601)."""
    small = [
        cv2.resize(plane, size_hw[::-1], interpolation=cv2.INTER_AREA) for plane in (luma_hw, cr_hw, cb_hw)
    ]
    full = [cv2.convertScaleAbs(small[0], alpha=255 / 219, beta=-16 * 255 / 219)]
    full += [cv2.addWeighted(plane, 255 / 224, plane, 0, 128 - 128 * 255 / 224) for plane in small[1:]]
    return np.asarray(cv2.cvtColor(cv2.merge(full), cv2.COLOR_YCrCb2RGB), np.uint8)
