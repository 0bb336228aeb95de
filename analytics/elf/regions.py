"""Which detection is which known object: region indexing across frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analytics.detections import Detections
from analytics.elf.geometry import Boxes, Mask, Numbers, Rows, areas, mutual_best, overlaps
from analytics.elf.prediction import MAX_REGIONS, Prediction, Predictor


@dataclass(frozen=True, slots=True)
class RegionRules:
    """When a detection is a known object, and when an object is gone.

    Attributes:
        min_likeness: of a detection and an expected box, see ``_likeness``.
        max_misses: looked for and not found so many times in a row: gone.
        max_unproven_misses: the same for what was seen once only: mostly the detector's mistake.
    """

    min_likeness: float = 0.1
    max_misses: int = 6
    max_unproven_misses: int = 3


class RegionTable:
    """Known objects in slots that keep their number while the object lives; at most MAX_REGIONS.

    Does not decide what is sent: it holds what is known and how well it moves.
    """

    def __init__(self, predictor: Predictor, rules: RegionRules | None = None) -> None:
        self._predictor, self._rules = predictor, rules or RegionRules()
        self._alive = np.zeros(MAX_REGIONS, np.bool_)
        self._misses = np.zeros(MAX_REGIONS, np.int64)
        self._hits = np.zeros(MAX_REGIONS, np.int64)
        self.boxes = np.zeros((MAX_REGIONS, 4))  # as last seen
        self.scores = np.zeros(MAX_REGIONS)
        self.class_ids = np.zeros(MAX_REGIONS, np.int64)
        self.seen = np.zeros(MAX_REGIONS, np.int64)  # frame of it
        self.tried = np.zeros(MAX_REGIONS, np.int64)  # last frame that looked for it
        self.cut = np.zeros((MAX_REGIONS, 4), np.bool_)  # edges at which it went on beyond what was sent

    @property
    def slots(self) -> Rows:
        """The slots in use, rising."""
        return np.flatnonzero(self._alive)

    def predict(self, frame_index: int, frame_wh: tuple[int, int]) -> Prediction:
        """Where the objects in ``slots`` will be."""
        return self._predictor.predict(frame_index, self.slots, frame_wh)

    def observe(self, frame_index: int, frame_wh: tuple[int, int], found: Detections, sent: Mask) -> Rows:
        """Take what was found in a frame.

        Args:
            frame_index: rises from call to call.
            frame_wh: its size.
            found: all of it.
            sent: [MAX_REGIONS] the slots that were looked for; others are not missed.

        Returns:
            The rows of ``found`` that are new objects.
        """
        slots = self.slots
        boxes = found.boxes_xyxy.astype(np.float64)
        expected = self._predictor.predict(frame_index, slots, frame_wh).boxes_xyxy
        like = _likeness(expected, boxes) * np.where(
            self.class_ids[slots][:, None] == found.class_ids[None], 1.0, 0.6
        )
        known, rows = mutual_best(like, self._rules.min_likeness)
        self._seen_again(frame_index, slots[known], boxes[rows], found, rows)
        missed = np.ones(len(slots), np.bool_)
        missed[known] = False
        self._miss(frame_index, slots[missed & sent[slots]])
        fresh = np.ones(len(found), np.bool_)
        fresh[rows] = False
        return self._begin(frame_index, boxes, found, np.flatnonzero(fresh))

    def _seen_again(self, frame_index: int, slots: Rows, boxes: Boxes, found: Detections, rows: Rows) -> None:
        self._predictor.observe(frame_index, slots, boxes)
        self._note(frame_index, slots, boxes, found, rows)
        self._hits[slots] += 1

    def _miss(self, frame_index: int, slots: Rows) -> None:
        self._misses[slots] += 1
        self.tried[slots] = frame_index
        limit = np.where(self._hits[slots] > 1, self._rules.max_misses, self._rules.max_unproven_misses)
        self._alive[slots[self._misses[slots] > limit]] = False

    def _begin(self, frame_index: int, boxes: Boxes, found: Detections, rows: Rows) -> Rows:
        free = np.flatnonzero(~self._alive)[: len(rows)]
        rows = rows[: len(free)]  # the strongest first, as detectors give them; further ones are passed over
        self._alive[free] = True
        self._hits[free] = 1
        self._predictor.start(frame_index, free, boxes[rows])
        self._note(frame_index, free, boxes[rows], found, rows)
        return rows

    def _note(self, frame_index: int, slots: Rows, boxes: Boxes, found: Detections, rows: Rows) -> None:
        self._misses[slots] = 0
        self.tried[slots] = frame_index
        self.boxes[slots], self.seen[slots], self.cut[slots] = boxes, frame_index, False
        self.scores[slots], self.class_ids[slots] = found.scores[rows], found.class_ids[rows]

    def is_found(self, slots: Rows) -> Mask:
        """[n]: the last frame that looked for it has found it."""
        return np.asarray(self.seen[slots] == self.tried[slots])

    def speeds(self, frame_index: int, frame_wh: tuple[int, int]) -> Numbers:
        """How far each object is expected to move in one frame, in parts of its own size, [n]."""
        slots = self.slots
        now = self._predictor.predict(frame_index, slots, frame_wh).boxes_xyxy
        then = self._predictor.predict(frame_index + 1, slots, frame_wh).boxes_xyxy
        size = np.sqrt(np.maximum(areas(now), 1.0))
        return np.asarray(np.abs(then - now).max(1) / size)

    def clear(self) -> None:
        """Forget everything."""
        self._alive[:] = False

    def drop_outside(self, frame_index: int, frame_wh: tuple[int, int]) -> None:
        """Forget objects that should have left the frame by ``frame_index``."""
        slots = self.slots
        boxes = self._predictor.predict(frame_index, slots, frame_wh).boxes_xyxy
        inside = np.minimum(boxes[:, 2:], frame_wh) - np.maximum(boxes[:, :2], 0)
        self._alive[slots[(inside <= 2).any(1)]] = False


def _likeness(expected: Boxes, boxes: Boxes) -> Numbers:
    """[n, m], 0 to 1: overlap, or for small and fast objects nearness of centres and sizes.

    Nearness as in Elf (centre offset and area), but in parts of the object's size, not of the frame's.
    """
    centre_a, centre_b = (expected[:, :2] + expected[:, 2:]) / 2, (boxes[:, :2] + boxes[:, 2:]) / 2
    size_a = np.sqrt(np.maximum(areas(expected), 1.0))
    size_b = np.sqrt(np.maximum(areas(boxes), 1.0))
    off = np.abs(centre_a[:, None] - centre_b[None]).max(2) / np.minimum(size_a[:, None], size_b[None])
    ratio = np.minimum(size_a[:, None], size_b[None]) / np.maximum(size_a[:, None], size_b[None])
    near = np.where((off < 1.0) & (ratio > 0.5), 0.4 * (1 - off) * ratio, 0.0)
    return np.asarray(np.maximum(overlaps(expected, boxes), near))
