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
    left, width = _side(tile.box[0], tile.box[2], cut.frame_wh[0], tile.scale, cut.stride)
    top, height = _side(tile.box[1], tile.box[3], cut.frame_wh[1], tile.scale, cut.stride)
    return Tile(left, top, width, height, worker, tile.scale)


def _side(low: float, high: float, limit: int, scale: float, stride: int) -> tuple[int, int]:
    sent = math.ceil((high - low) * scale / stride) * stride
    size = min(limit, math.floor(sent / scale + 1e-6))
    start = math.floor((low + high - size) / 2)
    return min(max(start, math.ceil(high) - size, 0), limit - size), size


def cut_edges(boxes: Boxes, tiles: Sequence[Tile], frame_wh: tuple[int, int]) -> Mask:
    """[n, 4]: the edges at which a box ends at its tile's border, where no other tile goes on."""
    holders = np.array([tile.xyxy for tile in tiles], np.float64)
    near = np.array([CUT_PX / tile.scale for tile in tiles])[None, :, None]
    frame = np.array([0.0, 0.0, *frame_wh])
    inner = np.abs(holders - frame) > 0.5
    low = boxes[:, None, :2] - holders[None, :, :2] <= near
    high = holders[None, :, 2:] - boxes[:, None, 2:] <= near
    touched = np.concatenate([low, high], 2) & inner[None]
    shared = shared_areas(boxes, holders)
    touched[shared <= 0] = True  # a tile that does not hold the box at all does not go on there
    return np.asarray(touched.all(1) & (shared > 0).any(1)[:, None])
