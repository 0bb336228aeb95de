"""What changed pixels tell: which known objects stand still, and where something moves that is not known."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from analytics.elf.geometry import Boxes, Mask, Rows
from analytics.elf.prediction import MAX_REGIONS
from base.errors import UsageError

MAX_PROPOSALS = 16  # in one frame, the largest
_NEVER = -(1 << 30)


@dataclass(frozen=True, slots=True)
class MotionRules:
    """How changed cells are used.

    Attributes:
        most_changed: above this part of all cells it is the light or the camera, not objects: nothing is
            still, and nothing is proposed.
        max_still: a still object is looked at again after so many frames at the latest.
        most_patience: where proposals were sent in vain, the wait until the next doubles, up to 2 to this.
        reach: cells around a known object that its own motion may change.
    """

    most_changed: float = 0.5
    max_still: int = 25
    most_patience: int = 4
    reach: float = 0.5


class ChangeMap:
    """When each known object's surroundings last changed, and where proposals were made in vain.

    Cells are ``cell`` pixels wide and high; the client finds which of them changed (analytics.elf.changes).
    """

    def __init__(self, cell: int, rules: MotionRules | None = None) -> None:
        self._cell, self._rules = cell, rules or MotionRules()
        self._touched = np.zeros(MAX_REGIONS, np.int64)  # last frame that changed something in a slot's box
        self.is_blind = True  # it is not known what changed
        self._tried = np.zeros((0, 0), np.int64)  # last frame that proposed it
        self._vain = np.zeros((0, 0), np.int64)  # proposals in vain in a row
        self._is_fresh = np.zeros((0, 0), np.bool_)
        self._proposed: dict[int, npt.NDArray[np.int32]] = {}

    def resize(self, frame_wh: tuple[int, int]) -> None:
        """Forget everything; frames are of this size now."""
        shape = (-(-frame_wh[1] // self._cell), -(-frame_wh[0] // self._cell))
        self._tried = np.full(shape, _NEVER)
        self._vain, self._is_fresh = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
        self._proposed.clear()

    def take(self, frame_index: int, changed: Mask | None) -> None:
        """Which cells [rows, columns] changed since the frame before; None: not known.

        Raises:
            UsageError: not the number of cells that the frame has.
        """
        if changed is not None and changed.shape != self._tried.shape:
            message = f"changed: expected {list(self._tried.shape)} cells, got {list(changed.shape)}"
            raise UsageError(message)
        rules = self._rules
        self.is_blind = changed is None or float(changed.mean()) > rules.most_changed
        self._is_fresh = (
            np.zeros(self._tried.shape, np.bool_) if changed is None or self.is_blind else changed
        )

    def still(self, frame_index: int, slots: Rows, boxes: Boxes, known_at: npt.NDArray[np.int64]) -> Mask:
        """[n]: nothing has changed within a slot's box since frame ``known_at``, which is not too long ago.

        To be called once a frame, so that every slot's last change is known.
        """
        if self.is_blind:
            self._touched[slots] = frame_index
            return np.zeros(len(slots), np.bool_)
        low, high = self._cells(boxes)
        sums = np.zeros((self._tried.shape[0] + 1, self._tried.shape[1] + 1), np.int32)
        np.cumsum(self._is_fresh, 0, np.int32, out=sums[1:, 1:])
        np.cumsum(sums[1:, 1:], 1, np.int32, out=sums[1:, 1:])
        inside = sums[high[:, 1], high[:, 0]] + sums[low[:, 1], low[:, 0]]
        inside -= sums[low[:, 1], high[:, 0]] + sums[high[:, 1], low[:, 0]]
        self._touched[slots[inside > 0]] = frame_index
        return np.asarray(
            (self._touched[slots] <= known_at) & (frame_index - known_at < self._rules.max_still)
        )

    def propose(self, frame_index: int, explained: Boxes) -> Boxes:
        """Boxes [n, 4] around what moves outside the ``explained`` ones, in whole pixels."""
        loose = self._is_fresh.copy()
        if loose.any():
            reach = self._rules.reach * self._cell
            for left, top, right, bottom in self._spans(explained + np.array([-reach, -reach, reach, reach])):
                loose[top:bottom, left:right] = False
        if not loose.any():
            return np.zeros((0, 4))
        wait = (1 << np.minimum(self._vain, self._rules.most_patience)) - 1
        ready = loose & (frame_index - self._tried > wait)
        count, labels, stats, _ = cv2.connectedComponentsWithStats(loose.astype(np.uint8), connectivity=8)
        wanted = np.zeros(count, np.bool_)
        wanted[labels[ready]] = True
        chosen = np.flatnonzero(wanted)
        if len(chosen) > MAX_PROPOSALS:
            largest = np.argsort(-stats[chosen, cv2.CC_STAT_AREA], kind="stable")
            chosen = np.sort(chosen[largest[:MAX_PROPOSALS]])
            wanted[:] = False
            wanted[chosen] = True
        if not len(chosen):
            return np.zeros((0, 4))
        cells = np.where(wanted[labels], labels, 0)
        self._tried[cells > 0] = frame_index
        self._proposed[frame_index] = cells
        at = stats[chosen, :4].astype(np.float64) * self._cell
        return np.concatenate([at[:, :2], at[:, :2] + at[:, 2:]], 1)

    def answered(self, frame_index: int, found: Boxes) -> None:
        """What was found in that frame: proposals without anything in them were in vain."""
        cells = self._proposed.pop(frame_index, None)
        self._proposed = {index: kept for index, kept in self._proposed.items() if index > frame_index}
        if cells is None:
            return
        hit = np.zeros(int(cells.max()) + 1, np.bool_)
        for left, top, right, bottom in self._spans(found):
            hit[cells[top:bottom, left:right].ravel()] = True
        inside = cells > 0
        self._vain[inside] = np.where(hit[cells[inside]], 0, self._vain[inside] + 1)

    def _spans(self, boxes: Boxes) -> list[list[int]]:
        low, high = self._cells(boxes)
        spans: list[list[int]] = np.concatenate([low, high], 1).tolist()
        return spans

    def _cells(self, boxes: Boxes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """First [n, 2] (column, row) and first cells beyond each box, at least one cell each."""
        rows, columns = self._tried.shape
        low = np.clip((boxes[:, :2] / self._cell).astype(np.intp), 0, (columns - 1, rows - 1))
        high = np.clip(np.ceil(boxes[:, 2:] / self._cell).astype(np.intp), low + 1, (columns, rows))
        return low, high
