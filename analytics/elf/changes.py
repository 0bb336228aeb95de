"""Where a picture changed since the one before, in cells."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from analytics.elf.geometry import Mask
from base.errors import UsageError

Plane = npt.NDArray[np.uint8]
CHANGED = 10  # of 255; protected clips: 8 sends half as much again, 16 misses slow motion (docs/elf.md)
_SHRINK = 4  # differences are taken at a quarter of the size: noise averages out, people stay


class FrameChanges:
    """Compares each frame with the one before; keeps a small copy of that."""

    def __init__(self, cell: int, threshold: int = CHANGED) -> None:
        self._cell, self._threshold = cell, threshold
        self._before: Plane | None = None

    def update(self, luma_hw: Plane) -> Mask | None:
        """Cells [rows, columns] that differ from the frame before; None for the first of a size."""
        now, before = shrink(luma_hw), self._before
        self._before = now
        if before is None or before.shape != now.shape:
            return None
        return changed_cells(before, now, cell=self._cell, threshold=self._threshold)


def shrink(luma_hw: Plane) -> Plane:
    """A quarter of the size, each pixel the mean of 4 x 4.

    Raises:
        UsageError: not uint8 [H, W].
    """
    if luma_hw.ndim != 2 or luma_hw.dtype != np.uint8 or 0 in luma_hw.shape:
        message = f"luma: expected uint8 [H, W], got {luma_hw.dtype} {list(luma_hw.shape)}"
        raise UsageError(message)
    size = (-(-luma_hw.shape[1] // _SHRINK), -(-luma_hw.shape[0] // _SHRINK))
    return np.asarray(cv2.resize(luma_hw, size, interpolation=cv2.INTER_AREA), np.uint8)


def changed_cells(before: Plane, now: Plane, *, cell: int, threshold: int = CHANGED) -> Mask:
    """Which cells of ``cell`` x ``cell`` frame pixels differ, [rows, columns].

    Args:
        before: from ``shrink``.
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
