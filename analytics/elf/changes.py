"""Where a picture changed since the one before, in cells."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from analytics.elf.geometry import Mask
from analytics.interface import Image, check_image
from base.errors import UsageError

_SHRINK = 4  # differences are taken at a quarter of the size: noise averages out, people stay


def small_grey(frame_bgr_hwc: Image) -> npt.NDArray[np.uint8]:
    """A frame as the comparison needs it: grey, a quarter of the size. Keep it for the next frame."""
    height, width = check_image(frame_bgr_hwc)
    size = (max(1, width // _SHRINK), max(1, height // _SHRINK))
    small = cv2.resize(frame_bgr_hwc, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY), np.uint8)


def changed_cells(
    before: npt.NDArray[np.uint8], now: npt.NDArray[np.uint8], *, cell: int = 32, threshold: int = 20
) -> Mask:
    """Which cells of ``cell`` x ``cell`` frame pixels differ, [rows, columns].

    Args:
        before: from small_grey.
        now: the same of a later frame of that size.
        cell: frame pixels, a multiple of 4.
        threshold: a cell has changed if any of its small pixels differs by more, 0 to 255.

    Raises:
        UsageError: pictures of different sizes, or a cell size that does not fit.
    """
    if before.shape != now.shape:
        message = f"changed_cells: expected two pictures of one size, got {before.shape} and {now.shape}"
        raise UsageError(message)
    side, rest = divmod(cell, _SHRINK)
    if rest or side < 1:
        message = f"changed_cells: expected a cell of a multiple of {_SHRINK}, got {cell}"
        raise UsageError(message)
    differs = cv2.absdiff(before, now)
    rows, columns = (-(-length // side) for length in differs.shape)
    padded = np.zeros((rows * side, columns * side), np.uint8)
    padded[: differs.shape[0], : differs.shape[1]] = differs
    return np.asarray(padded.reshape(rows, side, columns, side).max((1, 3)) > threshold)
