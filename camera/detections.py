"""Detections that a detector sends to the camera: bounded parsing of one JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from analytics.detections import DetectionRow
from base.errors import LimitExceeded, Malformed

MAX_BYTES = 64 * 1024
MAX_ROWS = 256
MAX_PIXELS = 16_384
MAX_LABEL_CHARS = 64


@dataclass(frozen=True, slots=True)
class PictureDetections:
    """What was found in one picture of ``width`` x ``height`` pixels."""

    width: int
    height: int
    rows: tuple[DetectionRow, ...]

    @classmethod
    def parse(cls, data: bytes) -> PictureDetections:
        """Read ``{"width", "height", "detections": [{"label", "score", "box_xyxy"}, ...]}``.

        That is a line of ``veilcam detect``; other keys are passed over. Boxes are cut to the picture.

        Raises:
            LimitExceeded: more than 64 KiB, 256 detections or 16384 pixels.
            Malformed: not such an object.
        """
        if len(data) > MAX_BYTES:
            message = f"detections: {len(data)} bytes, limit is {MAX_BYTES}"
            raise LimitExceeded(message)
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            message = "detections: not JSON"
            raise Malformed(message) from error
        if not isinstance(document, dict):
            message = "detections: expected an object"
            raise Malformed(message)
        width, height = _pixels(document, "width"), _pixels(document, "height")
        rows = document.get("detections")
        if not isinstance(rows, list):
            message = "detections: expected a list of detections"
            raise Malformed(message)
        if len(rows) > MAX_ROWS:
            message = f"detections: {len(rows)} of them, limit is {MAX_ROWS}"
            raise LimitExceeded(message)
        return cls(width, height, tuple(_row(row, width, height) for row in rows))

    def to_json(self) -> dict[str, object]:
        """The same object."""
        return {"width": self.width, "height": self.height, "detections": list(self.rows)}


def _pixels(document: Mapping[str, object], name: str) -> int:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PIXELS:
        message = f"detections: {name}: expected 1 to {MAX_PIXELS} pixels"
        raise Malformed(message)
    return value


def _row(row: object, width: int, height: int) -> DetectionRow:
    if not isinstance(row, dict):
        message = "detections: expected objects with label, score and box_xyxy"
        raise Malformed(message)
    label = row.get("label")
    if not isinstance(label, str) or not 1 <= len(label) <= MAX_LABEL_CHARS or not label.isprintable():
        message = f"detections: label: expected 1 to {MAX_LABEL_CHARS} printable characters"
        raise Malformed(message)
    score = _number(row.get("score"), "score")
    box = row.get("box_xyxy")
    if not 0 <= score <= 1 or not isinstance(box, list) or len(box) != 4:
        message = "detections: expected a score from 0 to 1 and a box of four numbers"
        raise Malformed(message)
    left, top, right, bottom = (_number(edge, "box_xyxy") for edge in box)
    if right < left or bottom < top:
        message = "detections: box_xyxy: expected right >= left and bottom >= top"
        raise Malformed(message)
    edges = [_within(left, width), _within(top, height), _within(right, width), _within(bottom, height)]
    return DetectionRow(label=label, score=score, box_xyxy=edges)


def _number(value: object, name: str) -> float:
    # Comparing before converting: float() of a huge integer fails.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e6 <= value <= 1e6:
        message = f"detections: {name}: expected numbers"
        raise Malformed(message)
    number = float(value)
    assert math.isfinite(number)  # noqa: S101  # the comparison above is false for nan
    return number


def _within(edge: float, limit: int) -> float:
    return min(max(edge, 0.0), float(limit))
