"""What a detector found in one picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from base.errors import UsageError

Boxes = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float32]
ClassIds = npt.NDArray[np.int64]
Index = int | slice | Sequence[int] | npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]]


class DetectionRow(TypedDict):
    """One detection as JSON: score from 0 to 1, box left, top, right, bottom in pixels."""

    label: str
    score: float
    box_xyxy: list[float]


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """n boxes of one picture with their scores and classes; rows belong together.

    Attributes:
        boxes_xyxy: float32 [n, 4], pixels: left, top, right, bottom; right >= left, bottom >= top.
        scores: float32 [n], from 0 to 1.
        class_ids: int64 [n], each an index into ``names``.
        names: names of all classes that the detector knows, not only of those found.

    Raises:
        UsageError: the arrays do not fit together, or hold values that are out of range.
    """

    boxes_xyxy: Boxes
    scores: Scores
    class_ids: ClassIds
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "boxes_xyxy", np.asarray(self.boxes_xyxy, np.float32))
        object.__setattr__(self, "scores", np.asarray(self.scores, np.float32))
        object.__setattr__(self, "class_ids", np.asarray(self.class_ids, np.int64))
        object.__setattr__(self, "names", tuple(self.names))
        self._check_shapes()
        self._check_values()

    def _check_shapes(self) -> None:
        if self.boxes_xyxy.ndim != 2 or self.boxes_xyxy.shape[1] != 4:
            message = f"boxes_xyxy: expected shape [n, 4], got {list(self.boxes_xyxy.shape)}"
            raise UsageError(message)
        num_boxes = self.boxes_xyxy.shape[0]
        for name, array in (("scores", self.scores), ("class_ids", self.class_ids)):
            if array.shape != (num_boxes,):
                message = f"{name}: expected shape [{num_boxes}] like boxes_xyxy, got {list(array.shape)}"
                raise UsageError(message)

    def _check_values(self) -> None:
        if not np.isfinite(self.boxes_xyxy).all():
            raise UsageError("boxes_xyxy: expected finite numbers, got inf or nan")
        if (self.boxes_xyxy[:, 2:] < self.boxes_xyxy[:, :2]).any():
            raise UsageError("boxes_xyxy: expected right >= left and bottom >= top")
        if not ((self.scores >= 0) & (self.scores <= 1)).all():
            raise UsageError("scores: expected values from 0 to 1")
        if len(self):
            lowest, highest = self.class_ids.min(), self.class_ids.max()
            if lowest < 0 or highest >= len(self.names):
                message = f"class_ids: expected 0 to {len(self.names) - 1}, got {lowest} to {highest}"
                raise UsageError(message)

    @classmethod
    def empty(cls, names: tuple[str, ...]) -> Detections:
        """No detections, by a detector that knows ``names``."""
        return cls(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64), names)

    @classmethod
    def concatenate(cls, parts: Iterable[Detections]) -> Detections:
        """All rows of all ``parts`` in order; the parts share their class names.

        Raises:
            UsageError: there are no parts, or their class names differ.
        """
        found = list(parts)
        if not found:
            raise UsageError("concatenate: expected at least one Detections, got none")
        if any(part.names != found[0].names for part in found):
            raise UsageError("concatenate: the parts have different class names")
        return cls(
            np.concatenate([part.boxes_xyxy for part in found]),
            np.concatenate([part.scores for part in found]),
            np.concatenate([part.class_ids for part in found]),
            found[0].names,
        )

    def __len__(self) -> int:
        return int(self.boxes_xyxy.shape[0])

    def __getitem__(self, index: Index) -> Detections:
        """The rows at ``index`` (one row, slice, mask [n] or row numbers), still as Detections."""
        rows = [index] if isinstance(index, int) else index
        return Detections(self.boxes_xyxy[rows], self.scores[rows], self.class_ids[rows], self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Detections):
            return NotImplemented
        return (
            self.names == other.names
            and np.array_equal(self.boxes_xyxy, other.boxes_xyxy)
            and np.array_equal(self.scores, other.scores)
            and np.array_equal(self.class_ids, other.class_ids)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays that can change

    @property
    def labels(self) -> tuple[str, ...]:
        """The class name of every row."""
        return tuple(self.names[class_id] for class_id in self.class_ids)

    def with_labels(self, labels: Iterable[str]) -> Detections:
        """The rows whose class is one of ``labels``."""
        wanted = [index for index, name in enumerate(self.names) if name in set(labels)]
        return self[np.isin(self.class_ids, wanted)]

    def clipped(self, width: int, height: int) -> Detections:
        """The boxes cut to ``width`` x ``height`` pixels; those wholly outside are dropped."""
        limits = np.array([width, height, width, height], np.float32)
        boxes = np.clip(self.boxes_xyxy, 0, limits)
        keep = np.flatnonzero((boxes[:, 2:] > boxes[:, :2]).all(1))
        return Detections(boxes, self.scores, self.class_ids, self.names)[keep]

    def to_json(self) -> list[DetectionRow]:
        """One row each, scores to 4 decimals, boxes to 2."""
        rows = zip(self.labels, self.scores.tolist(), self.boxes_xyxy.tolist(), strict=True)
        return [
            DetectionRow(label=label, score=round(score, 4), box_xyxy=[round(edge, 2) for edge in box])
            for label, score, box in rows
        ]
