"""Cutting one tile of several objects into two, so that two workers can share it.

Objects that overlap are joined into one tile since that costs the fewest pixels in all. Where this tile alone
decides when the frame is done, two tiles that overlap are faster though they cost more: every object is whole
in one of them, and merging takes care of what both show.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from analytics.elf.geometry import Boxes, Mask, Numbers
from analytics.elf.grouping import Cut, Group, measured

_OUTWARDS = np.array([-1.0, -1.0, 1.0, 1.0])
_MOST_MEMBERS = 32  # of larger tiles only the join tree's own halves are tried: planning stays quick


@dataclass(slots=True)
class Divisions:
    """All ways to divide one tile that are considered.

    Attributes:
        first: [n, m] the members that the first half holds whole; the second holds the others.
        sent_px, seen_px: [2, n] of the first and of the second half.
    """

    first: Mask
    sent_px: Numbers
    seen_px: Numbers
    made: dict[int, tuple[Group, Group]] = field(default_factory=dict)


class Divider:
    """Knows the objects' boxes, and with them how a tile can be divided. For one frame."""

    def __init__(self, boxes: Boxes, scales: Numbers, cut: Cut) -> None:
        """Prepare.

        Args:
            boxes: [n, 4] padded objects, as they were given to ``group``.
            scales: [n] of them.
            cut: how tiles are cut.
        """
        self._boxes, self._scales, self._cut = boxes, scales, cut
        self._known: dict[tuple[int, ...], Divisions | None] = {}

    def ways(self, tile: Group) -> Divisions | None:
        """How ``tile`` can be divided; None for a single object and for what holds too many."""
        if not 2 <= len(tile.members) <= _MOST_MEMBERS:
            return None
        if tile.members not in self._known:
            self._known[tile.members] = self._find(tile)
        return self._known[tile.members]

    def halves(self, tile: Group, divisions: Divisions, index: int) -> tuple[Group, Group]:
        """The two tiles of one division."""
        if index not in divisions.made:
            rows, first = np.array(tile.members), divisions.first[index]
            divisions.made[index] = self._group(rows[first]), self._group(rows[~first])
        return divisions.made[index]

    def _find(self, tile: Group) -> Divisions | None:
        rows = np.array(tile.members)
        reach = self._boxes[rows] * _OUTWARDS  # how far each object goes to the left, up, right, down
        hulls, edges = _seeds(reach), reach.T  # edge by edge: small innermost dimensions are slow
        first: Mask = edges[0] <= hulls[:, 0, None]
        for edge in (1, 2, 3):
            first &= edges[edge] <= hulls[:, edge, None]
        some = np.flatnonzero(~first.all(1))
        if not len(some):
            return None
        first = first.take(some, 0)
        both = np.empty((2, len(some), 4))
        both[0] = hulls.take(some, 0)
        for edge in range(4):
            np.where(first, -np.inf, edges[edge]).max(1, out=both[1, :, edge])
        scales = self._scales[rows]
        if scales.min() == 1:
            sent_px, seen_px = self._sizes(both, np.ones((2, len(some))))
        else:
            largest = [np.where(half, scales, 0.0).max(1) for half in (first, ~first)]
            sent_px, seen_px = self._sizes(both, np.array(largest))
        return Divisions(first, sent_px, seen_px)

    def _sizes(self, hulls: Boxes, scale: Numbers) -> tuple[Numbers, Numbers]:
        """Sent and seen pixels [2, n] of tiles around ``hulls`` [2, n, 4]."""
        step, (limit_x, limit_y) = self._cut.stride, self._cut.frame_wh
        width, height = (
            np.ceil((hulls[..., axis] + hulls[..., axis + 2]) * scale / step) * step for axis in (0, 1)
        )
        seen_x = np.minimum(np.floor(width / scale + 1e-6), limit_x)
        seen_y = np.minimum(np.floor(height / scale + 1e-6), limit_y)
        return width * height, seen_x * seen_y

    def _group(self, rows: npt.NDArray[np.intp]) -> Group:
        boxes = self._boxes[rows]
        left, top = (float(low) for low in boxes[:, :2].min(0))
        right, bottom = (float(high) for high in boxes[:, 2:].max(0))
        box, members = (left, top, right, bottom), tuple(rows.tolist())
        return measured(box, float(self._scales[rows].max()), members, None, self._cut)


def _seeds(reach: Boxes) -> Boxes:
    """[n, 4]: around the first 1, 2, ... objects by each of their edges, and around all but one."""
    falling, rising = (
        np.maximum.accumulate(reach[(sign * reach).argsort(0, kind="stable")])[:-1].swapaxes(0, 1)
        for sign in (1.0, -1.0)
    )  # [edge, n, 4]
    forward, backward = np.maximum.accumulate(reach), np.maximum.accumulate(reach[::-1])[::-1]
    around_all_but_one = (backward[1:2], np.maximum(forward[:-2], backward[2:]), forward[-2:-1])
    return np.concatenate([falling.reshape(-1, 4), rising.reshape(-1, 4), *around_all_but_one])
