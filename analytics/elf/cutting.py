"""From groups of objects to tiles in whole pixels, and which boxes a tile's border cut."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analytics.elf.geometry import Boxes, Mask, shared_areas
from analytics.elf.grouping import Cut, Group
from analytics.elf.types import Tile

CUT_PX = 3.0  # in sent pixels: a box that ends so near to an inner border may go on beyond it


def tile_around(tile: Group, worker: str, cut: Cut) -> Tile:
    """The tile of a group: its objects in the middle, sides rounded up to the stride, within the frame."""
    box, scale = tile.box, tile.scale
    left, width = _side(int(box[0]), int(box[2]), cut.frame_wh[0], scale, cut)
    top, height = _side(int(box[1]), int(box[3]), cut.frame_wh[1], scale, cut)
    return Tile(left, top, width, height, worker, scale)


def _side(low: int, high: int, limit: int, scale: float, cut: Cut) -> tuple[int, int]:
    if scale == 1:
        size = -(-(high - low) // cut.stride) * cut.stride
    else:
        size = int(math.ceil((high - low) * scale / cut.stride) * cut.stride / scale + 1e-6)
    if size >= limit:
        return 0, limit
    spare = size - (high - low)  # half of it before, in whole steps, so that the start stays aligned
    start = low - spare // 2 // cut.align * cut.align
    if start < 0:
        return 0, size
    return (start if start + size <= limit else limit - size), size


def cut_edges(boxes: Boxes, tiles: Sequence[Tile], frame_wh: tuple[int, int]) -> Mask:
    """[n, 4]: the edges at which a box ends at its tile's border, where no other tile goes on."""
    inner = np.array([_inner(tile, frame_wh) for tile in tiles])
    result = np.zeros((len(boxes), 4), np.bool_)
    within = boxes[:, 0, None] > inner[:, 0]
    within &= boxes[:, 1, None] > inner[:, 1]
    within &= boxes[:, 2, None] < inner[:, 2]
    within &= boxes[:, 3, None] < inner[:, 3]
    doubtful = np.flatnonzero(~within.any(1))
    if not len(doubtful):
        return result
    some = boxes[doubtful]
    holders = np.array([tile.xyxy for tile in tiles], np.float64)
    low, high = some[:, None, :2] <= inner[None, :, :2], some[:, None, 2:] >= inner[None, :, 2:]
    touched = np.concatenate([low, high], 2)
    shared = shared_areas(some, holders)
    touched[shared <= 0] = True  # a tile that does not hold the box at all does not go on there
    result[doubtful] = touched.all(1)
    result[doubtful[shared.max(1) <= 0]] = False
    return result


def _inner(tile: Tile, frame_wh: tuple[int, int]) -> tuple[float, float, float, float]:
    """Boxes that reach beyond end at the tile's border; at the frame's border nothing is cut."""
    near, endless = CUT_PX / tile.scale, 1e9
    left, top, right, bottom = tile.xyxy
    return (
        left + near if left else -endless,
        top + near if top else -endless,
        right - near if right != frame_wh[0] else endless,
        bottom - near if bottom != frame_wh[1] else endless,
    )
