"""Histograms of oriented gradients, block by block (Dalal and Triggs, CVPR 2005).

The numbers follow OpenCV 4's HOGDescriptor with its default settings, so that its published people
detector can be used with them: OpenCV 5 moved that class to its contrib wheels. Square-root gamma,
gradients [-1, 0, 1] of the strongest colour channel, 9 unsigned orientations with linear interpolation,
8x8 cells, 16x16 blocks every 8 pixels with a Gaussian of sigma 4 and bilinear interpolation between their
four cells, L2-Hys normalisation.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

CELL = 8  # pixels
BINS = 9
BLOCK_VALUES = 4 * BINS
_CLIP = 0.2  # of L2-Hys
_SIGMA = 4.0  # pixels
_SQUARE_ROOTS = np.sqrt(np.arange(256, dtype=np.float32))

Floats = npt.NDArray[np.float32]


def block_histograms(image_hwc: npt.NDArray[np.uint8]) -> Floats:
    """Normalised histograms [rows, columns, 36] of all blocks of ``image_hwc`` (uint8 [H, W, 3]).

    rows = H // 8 - 1 and columns = W // 8 - 1. The 36 values of a block are those of its cells top left,
    bottom left, top right, bottom right, 9 orientations each.
    """
    votes = _orientation_votes(image_hwc)
    rows, columns = votes.shape[1] // CELL, votes.shape[2] // CELL
    tiles = votes[:, : rows * CELL, : columns * CELL].reshape(BINS, rows, CELL, columns, CELL)
    profile = _cell_profile()
    # A block's weights are a product of one profile per axis: first along x, then along y.
    across = tiles @ profile
    both = np.einsum("btyxh,yv->btxvh", across, profile, optimize=True)
    # v and h are (half of the block) * 2 + cell: gather a block's histogram from its four 8x8 tiles.
    parts = both.reshape(BINS, rows, columns, 2, 2, 2, 2)  # bin, row, column, half y, cell y, half x, cell x
    blocks = sum(
        parts[:, y : rows - 1 + y, x : columns - 1 + x, y, :, x, :] for y in (0, 1) for x in (0, 1)
    )  # [bin, row, column, cell y, cell x]
    by_block = np.asarray(blocks, np.float32).transpose(1, 2, 4, 3, 0)
    return _normalise(by_block.reshape(*by_block.shape[:2], BLOCK_VALUES))


def _orientation_votes(image_hwc: npt.NDArray[np.uint8]) -> Floats:
    """Gradient magnitude of every pixel, shared out to its two nearest orientations: [9, H, W]."""
    roots = np.pad(_SQUARE_ROOTS[image_hwc], ((1, 1), (1, 1), (0, 0)), mode="reflect")
    dx = roots[1:-1, 2:] - roots[1:-1, :-2]
    dy = roots[2:, 1:-1] - roots[:-2, 1:-1]
    strongest = (dx * dx + dy * dy).argmax(2)[..., None]
    dx = np.take_along_axis(dx, strongest, 2)[..., 0]
    dy = np.take_along_axis(dy, strongest, 2)[..., 0]
    magnitude, angle = cv2.cartToPolar(dx, dy)
    position = angle * (BINS / np.pi) - 0.5
    lower = np.floor(position)
    share = position - lower
    lower_bin = lower.astype(np.int64) % BINS
    votes = np.zeros((BINS, *magnitude.shape), np.float32)
    np.put_along_axis(votes, lower_bin[None], (magnitude * (1 - share))[None], 0)
    np.put_along_axis(votes, ((lower_bin + 1) % BINS)[None], (magnitude * share)[None], 0)
    return votes


def _cell_profile() -> Floats:
    """Weight of each of a tile's 8 pixels along one axis: [8, 4], columns (half of the block) * 2 + cell."""
    pixel = np.arange(2 * CELL)
    gaussian = np.exp(-((pixel - CELL) ** 2) / (2 * _SIGMA**2))
    position = (pixel + 0.5) / CELL - 0.5  # in cells; cell c has its centre at c
    weights = [gaussian * np.clip(1 - np.abs(position - cell), 0, None) for cell in (0, 1)]
    profile = np.stack(weights, 1).reshape(2, CELL, 2)  # half, pixel, cell
    return profile.transpose(1, 0, 2).reshape(CELL, 4).astype(np.float32)


def _normalise(blocks: Floats) -> Floats:
    norms = np.sqrt((blocks**2).sum(2, keepdims=True)) + 0.1 * BLOCK_VALUES
    clipped = np.minimum(blocks / norms, _CLIP)
    result: Floats = clipped / (np.sqrt((clipped**2).sum(2, keepdims=True)) + 1e-3)
    return result
