"""Which detection is which known object: region indexing across frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analytics.detections import ClassIds, Detections
from analytics.elf.geometry import Boxes, Mask, Numbers, Rows, areas, mutual_best, overlaps
from analytics.elf.prediction import MAX_REGIONS, Prediction, Predictor

_KEPT = 8  # predictions
_SAME_PLACE = 0.5  # intersection over union: suppression leaves none of one class that overlap so far


@dataclass(frozen=True, slots=True)
class RegionRules:
    """When a detection is a known object, and when an object is gone.

    Attributes:
        min_overlap: of a detection and an expected box, intersection over union.
        min_nearness: without overlap: how near centre and size must be, 0 to 1.
        max_misses: looked for and not found so many times in a row: gone.
        max_unproven_misses: the same for what was seen once only: mostly the detector's mistake.
    """

    min_overlap: float = 0.1
    min_nearness: float = 0.25
    max_misses: int = 4
    max_unproven_misses: int = 1


class RegionTable:
    """Known objects in slots that keep their number while the object lives; at most MAX_REGIONS.

    Does not decide what is sent: it holds what is known and how well it moves.
    """

    def __init__(self, predictor: Predictor, rules: RegionRules | None = None) -> None:
        self._predictor, self._rules = predictor, rules or RegionRules()
        self._predicted: dict[int, Prediction] = {}  # by frame, until something is learnt
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
        return self._alive.nonzero()[0]

    def predict(self, frame_index: int, frame_wh: tuple[int, int]) -> Prediction:
        """Where the objects in ``slots`` will be."""
        known = self._predicted.get(frame_index)
        if known is None:
            known = self._predictor.predict(frame_index, self.slots, frame_wh)
            if len(self._predicted) > _KEPT:
                self._predicted.clear()
            self._predicted[frame_index] = known
        return known

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
        expected = self.predict(frame_index, frame_wh).boxes_xyxy
        self._predicted.clear()
        known, rows = self._match(slots, expected, boxes, found.class_ids)
        self._predictor.observe(frame_index, slots[known], boxes[rows], expected[known])
        self._note(slots[known], boxes[rows], found, rows)
        looked_for = slots[known][sent[slots[known]]]  # the others were only carried along
        self._hits[looked_for] += 1
        self.seen[looked_for] = self.tried[looked_for] = frame_index
        missed = slots[_others(len(slots), known)]
        self._miss(frame_index, missed[sent[missed]])
        return self._begin(frame_index, boxes, found, _others(len(found), rows))

    def _match(self, slots: Rows, expected: Boxes, boxes: Boxes, class_ids: ClassIds) -> tuple[Rows, Rows]:
        """Pairs by overlap; then, of what is left, by nearness: small and fast objects do not overlap."""
        if not len(slots) or not len(boxes):
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        same = np.where(self.class_ids[slots][:, None] == class_ids[None], 1.0, 0.6)
        known, rows = mutual_best(overlaps(expected, boxes) * same, self._rules.min_overlap)
        if len(known) == min(len(slots), len(boxes)):
            return known, rows
        rest, free = _others(len(slots), known), _others(len(boxes), rows)
        near = _nearness(expected[rest], boxes[free]) * same[rest][:, free]
        more, more_rows = mutual_best(near, self._rules.min_nearness)
        return np.concatenate([known, rest[more]]), np.concatenate([rows, free[more_rows]])

    def _miss(self, frame_index: int, slots: Rows) -> None:
        if not len(slots):
            return
        self._misses[slots] += 1
        self.tried[slots] = frame_index
        limit = np.where(self._hits[slots] > 1, self._rules.max_misses, self._rules.max_unproven_misses)
        self._alive[slots[self._misses[slots] > limit]] = False

    def _begin(self, frame_index: int, boxes: Boxes, found: Detections, rows: Rows) -> Rows:
        if not len(rows):
            return rows
        free = np.flatnonzero(~self._alive)[: len(rows)]
        rows = rows[: len(free)]  # the strongest first, as detectors give them; further ones are passed over
        self._alive[free] = True
        self._hits[free] = 1
        self._predictor.start(frame_index, free, boxes[rows])
        self._note(free, boxes[rows], found, rows)
        self.seen[free] = self.tried[free] = frame_index
        return rows

    def _note(self, slots: Rows, boxes: Boxes, found: Detections, rows: Rows) -> None:
        self._misses[slots] = 0
        self.boxes[slots], self.cut[slots] = boxes, False
        self.scores[slots], self.class_ids[slots] = found.scores[rows], found.class_ids[rows]

    def is_there(self, slots: Rows) -> Mask:
        """[n]: found when last looked for; one miss is allowed after two hits, as detectors flicker."""
        return np.asarray(self._misses[slots] <= (self._hits[slots] > 1))

    def doubles(self, slots: Rows, boxes: Boxes) -> Rows:
        """[n]: the row of the best known object that lies in the same place; for most of them their own.

        A detector is often of two minds about a large thing (a car, a lorry) and changes them. What it says
        now and then is no object of its own, whose uncertainty would make the tile larger.
        """
        own = np.arange(len(slots))
        if len(slots) < 2:
            return own
        same = overlaps(boxes, boxes) >= _SAME_PLACE
        if np.count_nonzero(same) == np.count_nonzero(same.diagonal()):
            return own
        order = np.lexsort((own, -self.scores[slots], -self._hits[slots]))
        rank = np.empty_like(own)
        rank[order] = own
        best = order[np.where(same, rank[None], rank[:, None]).min(1)]
        return np.asarray(np.where(best[best] == best, best, own))

    def is_proven(self, slots: Rows) -> Mask:
        """[n]: a detector has found it twice."""
        return np.asarray(self._hits[slots] > 1)

    def was_missed(self, slots: Rows) -> Mask:
        """[n]: not found when last looked for."""
        return np.asarray(self._misses[slots] > 0)

    def speeds(self, frame_index: int, frame_wh: tuple[int, int]) -> Numbers:
        """How far each object is expected to move in one frame, in parts of its own size, [n]."""
        slots = self.slots
        now = self._predictor.predict(frame_index, slots, frame_wh).boxes_xyxy
        then = self._predictor.predict(frame_index + 1, slots, frame_wh).boxes_xyxy
        size = np.sqrt(np.maximum(areas(now), 1.0))
        return np.asarray(np.abs(then - now).max(1) / size)

    def clear(self) -> None:
        """Forget everything."""
        self._predicted.clear()
        self._alive[:] = False

    def drop(self, slots: Rows) -> None:
        """Forget what is in ``slots``."""
        self._predicted.clear()
        self._alive[slots] = False


def _others(count: int, rows: Rows) -> Rows:
    """The rows of ``count`` that are not in ``rows``."""
    mask = np.ones(count, np.bool_)
    mask[rows] = False
    return mask.nonzero()[0]


def _nearness(expected: Boxes, boxes: Boxes) -> Numbers:
    """[n, m], 0 to 1: of centres and sizes, as in Elf, but in parts of the object's size."""
    centre_a, centre_b = (expected[:, :2] + expected[:, 2:]) / 2, (boxes[:, :2] + boxes[:, 2:]) / 2
    size_a = np.sqrt(np.maximum(areas(expected), 1.0))[:, None]
    size_b = np.sqrt(np.maximum(areas(boxes), 1.0))[None]
    smaller = np.minimum(size_a, size_b)
    off = np.abs(centre_a[:, None] - centre_b[None]).max(2) / smaller
    ratio = smaller / np.maximum(size_a, size_b)
    return np.asarray(np.where((off < 1) & (ratio > 0.5), (1 - off) * ratio, 0.0))
