"""The raw head of YOLOX (Ge et al. 2021, arXiv:2107.08430): where anchors lie, and the boxes they mean."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

STRIDES = (8, 16, 32)

Grid = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
"""Cell [anchors, 2] (x, y) and stride [anchors] of every anchor."""
Float = TypeVar("Float", np.float32, np.float64)


def anchor_grid(input_wh: tuple[int, int]) -> Grid:
    """All anchors, stride by stride, row by row."""
    cells, strides = [], []
    for stride in STRIDES:
        columns, rows = np.meshgrid(np.arange(input_wh[0] // stride), np.arange(input_wh[1] // stride))
        cells.append(np.stack([columns.ravel(), rows.ravel()], 1))
        strides.append(np.full(columns.size, stride))
    return np.concatenate(cells).astype(np.float32), np.concatenate(strides).astype(np.float32)


def boxes_of(
    values: npt.NDArray[Float], cells_xy: npt.NDArray[np.float32], strides: npt.NDArray[np.float32]
) -> npt.NDArray[Float]:
    """Boxes [n, 4] (x, y, x, y) in pixels of the network's input.

    centre = (xy + cell) * stride, size = exp(wh) * stride.

    Args:
        values: [n, 4 or more]: way to the centre and logarithm of width and height, in strides.
        cells_xy: [n, 2], of the same anchors.
        strides: [n], likewise.
    """
    centre = (values[:, :2] + cells_xy) * strides[:, None]
    half = np.exp(values[:, 2:4]) * strides[:, None] / 2
    return np.concatenate([centre - half, centre + half], 1)
