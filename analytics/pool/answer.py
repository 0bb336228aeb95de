"""Answers of workers: untrusted input, bounded and checked before anybody uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.detections import Detections
from base.errors import LimitExceeded, Malformed

MAX_BOXES = 1000  # in one tile
EDGE_PIXELS = 2.0  # how far a box may reach out of its tile: rounding, not a lie
CLOCK_SLACK_S = 0.05  # by which a worker's own times may exceed what was waited for it


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker found in one tile.

    Attributes:
        found: in pixels of the sent picture, cut to it.
        queue_s, busy_s: how long the tile waited and was worked on there, as the worker says; None: unknown.
    """

    found: Detections
    queue_s: float | None = None
    busy_s: float | None = None


def checked_detections(
    boxes: npt.NDArray[Any],
    scores: npt.NDArray[Any],
    class_ids: npt.NDArray[Any],
    names: tuple[str, ...],
    sent_wh: tuple[int, int],
) -> Detections:
    """Detections of a tile of ``sent_wh`` pixels, or an error; nothing is repaired but edges within 2 pixels.

    Raises:
        LimitExceeded: more than 1000 boxes.
        Malformed: shapes, kinds of numbers or values that no honest detector gives.
    """
    count = len(boxes) if boxes.ndim else 0
    if count > MAX_BOXES:
        message = f"answer: {count} boxes, limit is {MAX_BOXES}"
        raise LimitExceeded(message)
    if boxes.shape != (count, 4) or scores.shape != (count,) or class_ids.shape != (count,):
        message = f"answer: shapes {boxes.shape}, {scores.shape}, {class_ids.shape} do not fit together"
        raise Malformed(message)
    if boxes.dtype.kind != "f" or scores.dtype.kind != "f" or class_ids.dtype.kind not in "iu":
        message = f"answer: kinds of numbers {boxes.dtype}, {scores.dtype}, {class_ids.dtype}"
        raise Malformed(message)
    edges = boxes.astype(np.float64)
    limits = np.array([*sent_wh, *sent_wh], np.float64)
    if not np.isfinite(edges).all() or (edges < -EDGE_PIXELS).any() or (edges > limits + EDGE_PIXELS).any():
        raise Malformed("answer: a box that is not inside the tile")
    if (edges[:, 2:] < edges[:, :2]).any():
        raise Malformed("answer: a box with right < left or bottom < top")
    shares = scores.astype(np.float64)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise Malformed("answer: a score that is not from 0 to 1")
    if ((class_ids < 0) | (class_ids >= len(names))).any():
        raise Malformed("answer: a class that the model does not have")
    inside = np.clip(edges, 0, limits)
    return Detections(inside.astype(np.float32), shares.astype(np.float32), class_ids.astype(np.int64), names)


def checked_times(
    queue_us: object, busy_us: tuple[object, ...], waited_s: float
) -> tuple[float | None, float | None]:
    """The worker's own times in seconds, or None where it tells none.

    Raises:
        Malformed: not times, or more than was waited for the answer.
    """
    queue_s = _seconds(queue_us)
    parts = [_seconds(part) for part in busy_us]
    known = [part for part in parts if part is not None]
    busy_s = sum(known) if known else None
    if (queue_s or 0.0) + (busy_s or 0.0) > waited_s + CLOCK_SLACK_S:
        raise Malformed("answer: the worker says that it took longer than the answer took to come")
    return queue_s, busy_s


def _seconds(microseconds: object) -> float | None:
    if microseconds is None:
        return None
    if isinstance(microseconds, bool) or not isinstance(microseconds, int) or not 0 <= microseconds < 10**10:
        raise Malformed("answer: expected a time in microseconds")
    return microseconds / 1e6
