"""A second look at vehicles, each at the size at which the gate network sees writing on it best (ADR 0023).

In a whole picture it misses plates whose strokes are two pixels wide, and very large ones. Whatever the
network then says, it only shuts gates. Vehicles that there is no time to look at keep too few cells for
anything on them to be read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from models.background import reach_around
from models.looks import widened
from models.object_finder import FoundObjects
from models.pyramid import GATE_ONE
from models.session import Array, Session

PLATED_SCORE = 0.1
"""From here on an object is taken for one that bears a plate."""
SAME_OVERLAP = 0.5
"""Boxes that overlap so much (intersection over union) are one vehicle's: what all of them cover."""
SHORTEST_PX = 80.0
"""Longer side from which on writing can be read: a plate's letters are a 25th of a car's width."""
LARGEST_SCALE = 2.0
TILE_SIDES = (320, 640)
"""What the network sees: the vehicle enlarged at most so much, or reduced to fill the larger one."""
MOST_PIXELS = 3 * TILE_SIDES[-1] ** 2
"""Of all tiles of one look, which takes then about twice as long as without."""
VEHICLE_CELLS = 58
"""Cells of the longer side that remain of a vehicle that is not looked at. Seen from where its plate faces, a
car is 1.8 m wide and the plate's letters are 65 to 80 mm high: at most two and a half cells."""

STILL_PX = 16.0
"""How far the sides of a vehicle may move from one look to the next without being looked for in every one."""
EDGE_PX = 8.0
"""Around its box, which is not found to the pixel, for what the network sees there."""
LONGEST_WAY = 24
"""Blocks, from one look to the next, that are followed."""
UNHIDDEN_OCTAVES = 0.25
"""By how much less may be hidden than the network asks for in a tile that was reduced."""

Boxes = npt.NDArray[np.float64]


class _Tile(NamedTuple):
    """A cut of the picture, in even luma pixels, and how it lies in the network's picture."""

    left: int
    top: int
    right: int
    bottom: int
    scale: float
    side: int


class VehicleLook:
    """Shuts gates over what is written on vehicles. For pictures of one size, not for two threads at once."""

    def __init__(self, gate_net: Session, height: int, width: int) -> None:
        """``height`` and ``width`` of the luma plane without padding, even."""
        self._net = gate_net
        self._size_wh = np.array([width, height], np.float64)

    def __call__(
        self, luma_hw: Array, chroma_chw: Array, gates: Array, boxes: Boxes, before: Boxes | None = None
    ) -> Array:
        """``gates`` [1, bands, H/8, W/8], finest band first, shut on vehicles as far as each asks for.

        Args:
            luma_hw: [H, W], padded.
            chroma_chw: [2, H/2, W/2], likewise.
            gates: those of the whole picture.
            boxes: as of :meth:`boxes`.
            before: those of the look before; as far as a vehicle has moved since, it may move until the next.
        """
        if not len(boxes):
            return gates
        gates = gates.copy()
        pixels_left = MOST_PIXELS
        reaches = reach_around(boxes)
        for box, reach, steps in zip(boxes, reaches, ways(boxes, before), strict=True):
            tile = self._tile(box, float(reach))
            place = _blocks(box, self._size_wh)
            if tile.side**2 > pixels_left:
                asked = np.full_like(gates[0, :, *place], GATE_ONE)
                asked[: _octaves(box)] = 0
            else:
                pixels_left -= tile.side**2
                asked = _in_blocks(self._seen(luma_hw, chroma_chw, tile), tile, place)
            _shut_along(gates[0], asked, place, steps)
        return gates

    def boxes(self, objects: FoundObjects) -> Boxes:
        """Every vehicle once, [n, 4], the largest first; they may reach beyond the picture.

        Those that are too small for anything on them to be read, or lie outside, are left out.
        """
        found = objects.boxes_xyxy.astype(np.float64)
        inside = found.clip(0, np.tile(self._size_wh, 2))
        sides = inside[:, 2:] - inside[:, :2]
        wanted = (objects.plated >= PLATED_SCORE) & (sides.max(1) >= SHORTEST_PX) & (sides.min(1) > 0)
        order = np.argsort(-objects.plated[wanted], kind="stable")
        boxes = _merged(found[wanted][order])
        return boxes[np.argsort(-_longer_sides(boxes), kind="stable")]

    def _tile(self, box: Boxes, reach: float) -> _Tile:
        """The vehicle and what a coarse background leaves sharp around it."""
        left, top = (2 * np.floor((box[:2] - reach) / 2)).clip(0).astype(int).tolist()
        right, bottom = np.minimum(2 * np.ceil((box[2:] + reach) / 2), self._size_wh).astype(int).tolist()
        longer = max(right - left, bottom - top)
        scale = min(LARGEST_SCALE, TILE_SIDES[-1] / longer)
        return _Tile(left, top, right, bottom, scale, TILE_SIDES[scale * longer > TILE_SIDES[0]])

    def _seen(self, luma_hw: Array, chroma_chw: Array, tile: _Tile) -> Array:
        """The network's gates for the tile, [bands, side/8, side/8]."""
        rows, columns = slice(tile.top, tile.bottom), slice(tile.left, tile.right)
        half = slice(tile.top // 2, tile.bottom // 2), slice(tile.left // 2, tile.right // 2)
        planes = [_fitted(luma_hw[rows, columns], tile.scale, tile.side)]
        planes += [_fitted(plane[half], tile.scale, tile.side // 2) for plane in chroma_chw]
        gates, _ = self._net.run(planes[0][None, None], np.stack(planes[1:])[None])
        return np.asarray(gates[0], np.uint8)


def _fitted(plane: Array, scale: float, side: int) -> Array:
    """Scaled, in the top left of a square whose rest repeats its border."""
    width, height = (min(side, max(1, round(scale * length))) for length in plane.shape[::-1])
    how = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    small = cv2.resize(plane, (width, height), interpolation=how)
    return np.asarray(
        cv2.copyMakeBorder(small, 0, side - height, 0, side - width, cv2.BORDER_REPLICATE), np.uint8
    )


def ways(now: Boxes, before: Boxes | None) -> list[npt.NDArray[np.intp]]:
    """The blocks, (down, right) from where it is, over which each vehicle comes if it moves on as it did.

    As far as from the nearest one of the look before; none where no one is near. Up to LONGEST_WAY.
    """
    found = []
    nearest = _nearest(now, before) if before is not None and len(before) else now
    far = np.abs(now - nearest).max(1) >= _longer_sides(now)
    steps = np.where(far[:, None], 0, _middles(now) - _middles(nearest))[:, ::-1]
    for step in steps:
        num = min(math.ceil(float(np.abs(step).max()) / 8), LONGEST_WAY)
        shares = np.linspace(0, 1, num + 1)[:, None]
        found.append(np.rint(shares * step / 8).astype(np.intp))
    return found


def have_moved(before: Boxes, now: Boxes) -> bool:
    """Whether a vehicle of this look was not in the last one, or somewhere else."""
    if not len(now):
        return False
    return not len(before) or bool((np.abs(now - _nearest(now, before)).max(1) > STILL_PX).any())


def _nearest(now: Boxes, before: Boxes) -> Boxes:
    """For each of ``now`` the one of ``before`` whose sides are nearest to its own."""
    return np.asarray(before[np.abs(now[:, None] - before).max(2).argmin(1)], np.float64)


def _middles(boxes: Boxes) -> Boxes:
    return np.asarray((boxes[:, :2] + boxes[:, 2:]) / 2, np.float64)


def _longer_sides(boxes: Boxes) -> Boxes:
    return np.asarray((boxes[:, 2:] - boxes[:, :2]).max(1, initial=0), np.float64)


def _shut_along(gates: Array, asked: Array, place: tuple[slice, slice], steps: npt.NDArray[np.intp]) -> None:
    """Shut ``gates`` [bands, H/8, W/8] as ``asked`` at its place and after each of the steps from there."""
    rows, columns = place
    for down, right in steps.tolist():
        top, left = rows.start + down, columns.start + right
        first_row, first_column = max(0, -top), max(0, -left)
        window = gates[:, max(0, top) : max(0, rows.stop + down), max(0, left) : max(0, columns.stop + right)]
        part = asked[
            :, first_row : first_row + window.shape[1], first_column : first_column + window.shape[2]
        ]
        np.minimum(window, part, out=window)


def _merged(boxes: Boxes) -> Boxes:
    """The surest box of each vehicle, widened to those of its others; ``boxes`` come the surest first."""
    seeds = wholes = np.zeros((0, 4))
    for box in boxes:
        same = np.flatnonzero(_overlaps(seeds, box) >= SAME_OVERLAP)[:1]
        if not len(same):
            seeds, wholes = np.vstack([seeds, box]), np.vstack([wholes, box])
        wholes[same, :2] = np.minimum(wholes[same, :2], box[:2])
        wholes[same, 2:] = np.maximum(wholes[same, 2:], box[2:])
    return wholes


def _overlaps(boxes: Boxes, other: Boxes) -> Boxes:
    """Intersection over union of each with the other, [n]; sides are longer than nothing."""
    shared = (np.minimum(boxes[:, 2:], other[2:]) - np.maximum(boxes[:, :2], other[:2])).clip(0).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1) + (other[2:] - other[:2]).prod()
    return np.asarray(shared / (areas - shared), np.float64)


def _blocks(box: Boxes, size_wh: Boxes) -> tuple[slice, slice]:
    """Rows and columns of 8x8 blocks that the box and EDGE_PX around it touch."""
    left, top = ((box[:2] - EDGE_PX).clip(0) // 8).astype(int).tolist()
    right, bottom = np.ceil(np.minimum(box[2:] + EDGE_PX, size_wh) / 8).astype(int).tolist()
    return slice(top, bottom), slice(left, right)


def _octaves(box: Boxes) -> int:
    """How many must go for VEHICLE_CELLS to remain."""
    return math.ceil(math.log2(max(float((box[2:] - box[:2]).max()) / VEHICLE_CELLS, 1)))


def _in_blocks(seen: Array, tile: _Tile, place: tuple[slice, slice]) -> Array:
    """A tile's gates as those of blocks in the picture: [bands, rows, columns]."""
    # A block may lie on several cells of the tile, and a cell on a block's edge: the most shut counts.
    if tile.scale > 1:
        seen = widened(seen[None])[0]
    rows, columns = (
        np.arange(blocks.start, blocks.stop) * 8 - first
        for blocks, first in zip(place, (tile.top, tile.left), strict=True)
    )
    last = seen.shape[1] - 1

    def at(row_px: int, column_px: int) -> Array:
        down, right = (
            (tile.scale * pixels / 8).astype(int).clip(0, last)
            for pixels in (rows + row_px, columns + column_px)
        )
        return np.asarray(seen[:, down][:, :, right], np.uint8)

    there = np.minimum.reduce([at(row_px, column_px) for row_px in (0, 7) for column_px in (0, 7)])
    # Reduced to a half, the tile's finest band is the picture's second.
    num_finer = max(0, math.ceil(-math.log2(tile.scale) - UNHIDDEN_OCTAVES))
    return np.concatenate([*[there[:1]] * num_finer, there])[: len(seen)]
