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
        boxes = self._boxes[rows]
        seeds = np.concatenate([_runs(boxes), ~np.eye(len(rows), dtype=np.bool_)])
        hull = _hulls(boxes, seeds)
        low = (boxes[None, :, :2] >= hull[:, None, :2]).all(2)
        first: Mask = low & (boxes[None, :, 2:] <= hull[:, None, 2:]).all(2)
        first = np.unique(first[~first.all(1)], axis=0)
        if not len(first):
            return None
        scales = self._scales[rows]
        sizes = [
            self._sizes(_hulls(boxes, half), np.where(half, scales, 0.0).max(1)) for half in (first, ~first)
        ]
        return Divisions(first, np.stack([size[0] for size in sizes]), np.stack([size[1] for size in sizes]))

    def _sizes(self, hulls: Boxes, scale: Numbers) -> tuple[Numbers, Numbers]:
        step = self._cut.stride
        sent = np.ceil((hulls[:, 2:] - hulls[:, :2]) * scale[:, None] / step) * step
        seen = np.minimum(np.floor(sent / scale[:, None] + 1e-6), np.array(self._cut.frame_wh, np.float64))
        return sent.prod(1), seen.prod(1)

    def _group(self, rows: npt.NDArray[np.intp]) -> Group:
        boxes = self._boxes[rows]
        left, top, right, bottom = [*boxes[:, :2].min(0).tolist(), *boxes[:, 2:].max(0).tolist()]
        box, members = (left, top, right, bottom), tuple(rows.tolist())
        return measured(box, float(self._scales[rows].max()), members, None, self._cut)


def _runs(boxes: Boxes) -> Mask:
    """[4 * (m - 1) * 2, m]: the first 1, 2, ... objects by each of their edges, from both ends."""
    order = np.argsort(boxes, axis=0, kind="stable")
    rank = np.argsort(order, axis=0, kind="stable").T  # [4, m]
    limits = np.arange(1, len(boxes))
    before = rank[:, None, :] < limits[None, :, None]
    return np.asarray(np.concatenate([before, ~before]).reshape(-1, len(boxes)))


def _hulls(boxes: Boxes, chosen: Mask) -> Boxes:
    """[n, 4]: around the chosen ones of each row of ``chosen`` [n, m]."""
    low = np.where(chosen[:, :, None], boxes[None, :, :2], np.inf).min(1)
    high = np.where(chosen[:, :, None], boxes[None, :, 2:], -np.inf).max(1)
    return np.concatenate([low, high], 1)
