"""Drawing a few 64x64 tiles instead of the whole picture, with the same result.

The coarse pyramid levels look far around and cost little: they are rebuilt for the whole picture. The
levels of full and half resolution look two of their pixels around and cost nine tenths: they work on the
changed tiles only, each with a halo, stacked to one tall picture so that the number of calls does not grow
with the tiles. What a tile sees of its neighbour in the stack stays inside the halo.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from models.changes import BLOCK, Mask
from models.pyramid import GatedPyramid, Level, join, pool, split
from models.session import Array

TILE = 64
"""Side of a tile in luma pixels."""
HALO = 8
"""Luma pixels around a tile: one gate, more than the bilinear steps spoil."""
_GATE_SIDE = 8  # luma pixels per gate
_Index = npt.NDArray[np.intp]


class TileDrawer:
    """Draws tiles of pictures of one size. Not for two threads at once."""

    def __init__(self, height: int, width: int, bands: int) -> None:
        """Height and width in luma pixels, multiples of 64; ``bands`` of luma."""
        self._half = np.empty((height // 2, width // 2), np.uint8)
        self._quarter = np.empty((height // 4, width // 4, 3), np.uint8)
        self._coarse = GatedPyramid(height // 4, width // 4, bands - 2, channels=3)
        self._levels: tuple[int, Level, Level] | None = None  # for a number of tiles

    def __call__(
        self,
        over: Sequence[Array],
        clear: tuple[Array, Array],
        maps: tuple[Array, Array],
        tiles: Mask,
        blocks: Mask,
    ) -> None:
        """Draw over planes.

        Args:
            over: luma [H, W], cb and cr [H/2, W/2], written where ``blocks`` says.
            clear: luma [H, W] and chroma [2, H/2, W/2].
            maps: gates and thresholds, each [bands, H/8, W/8].
            tiles: [H/64, W/64], those with a block to draw.
            blocks: [H/16, W/16].
        """
        found = (np.nonzero(tiles)[0], np.nonzero(tiles)[1])
        places = _lengthened(found[0]), _lengthened(found[1])
        luma, chroma = clear
        # Luma at half its size and chroma share their gates: from here down they are three channels of one.
        middle = join(pool(luma, self._half), *chroma)
        quarter = pool(middle, self._quarter)
        rebuilt = self._coarse(quarter, maps[0][2:], maps[1][2:])
        gates0, gates1, cores0, cores1 = split(
            _gather(join(*maps[0][:2], *maps[1][:2]), places, TILE // _GATE_SIDE)
        )
        low = _gather(quarter, places, TILE // 4), _gather(rebuilt, places, TILE // 4)
        middle = _gather(middle, places, TILE // 2)
        fine_level, level = self._levels_for(len(places[0]))
        rebuilt_half, *kept_chroma = split(level.rebuild(middle, *low, gates1, cores1))
        fine = _gather(luma, places, TILE)
        kept_luma = fine_level.rebuild(fine, split(middle)[0], rebuilt_half, gates0, cores0)
        for plane, new in zip(over, (kept_luma, *kept_chroma), strict=True):
            _scatter(plane, new, found, blocks)

    def _levels_for(self, num: int) -> tuple[Level, Level]:
        if self._levels is None or self._levels[0] != num:
            side = TILE + 2 * HALO
            levels = Level(num * side, side), Level(num * side // 2, side // 2, channels=3)
            self._levels = (num, *levels)
        return self._levels[1:]


def _lengthened(index: _Index) -> _Index:
    """The index, its last entry repeated up to one of few sizes: run-times prepare for each size."""
    step = 1 << max(0, len(index).bit_length() - 2)
    size = -(-len(index) // step) * step
    return np.pad(index, (0, size - len(index)), mode="edge")


def _gather(plane: Array, places: tuple[_Index, _Index], side: int) -> Array:
    """Tiles of a plane with halos, one below the other: [num * (side + 2 * halo), side + 2 * halo, ...]."""
    halo = side * HALO // TILE
    rows, columns = plane.shape[0] // side, plane.shape[1] // side
    bordered = np.asarray(cv2.copyMakeBorder(plane, halo, halo, halo, halo, cv2.BORDER_REPLICATE), np.uint8)
    whole, tail = side + 2 * halo, bordered.shape[2:]
    down, right = bordered.strides[:2]
    windows = np.ndarray(
        (rows, columns, whole, whole, *tail),
        np.uint8,
        bordered,
        strides=(side * down, side * right, *bordered.strides),
    )
    return windows[places].reshape(-1, whole, *tail)


def _scatter(plane: Array, stack: Array, places: tuple[_Index, _Index], blocks: Mask) -> None:
    """Write the blocks of a stack of tiles to a plane."""
    rows, columns = blocks.shape
    share = TILE // BLOCK
    side = plane.shape[0] * TILE // (rows * BLOCK)
    halo, block = side * HALO // TILE, side // share
    new = stack.reshape(-1, side + 2 * halo, side + 2 * halo)[: len(places[0]), halo:-halo, halo:-halo]
    targets = plane.reshape(rows // share, side, columns // share, side).transpose(0, 2, 1, 3)
    wanted = blocks.reshape(rows // share, share, columns // share, share).transpose(0, 2, 1, 3)[places]
    wanted = wanted.repeat(block, 1).repeat(block, 2)
    targets[places] = np.where(wanted, new, targets[places])
