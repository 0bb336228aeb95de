"""Picture sheets: rows of tiles with captions, boxes drawn in."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from analytics import Detections
from analytics.interface import Image
from evaluation.pictures import resized

_MIN_SCORE = 0.4
GREEN, YELLOW = (80, 200, 0), (0, 220, 255)
_CAPTION_PX = 18


def with_boxes(
    image: Image,
    found: Detections,
    min_score: float = _MIN_SCORE,
    colour: tuple[int, int, int] = YELLOW,
) -> Image:
    """A copy with the confident boxes in it."""
    drawn = image.copy()
    for box, score, label in zip(found.boxes_xyxy, found.scores, found.labels, strict=True):
        if score >= min_score:
            left, top, right, bottom = (round(float(edge)) for edge in box)
            cv2.rectangle(drawn, (left, top), (right, bottom), colour, 2)
            cv2.putText(drawn, label, (left, max(top - 4, 10)), cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour)
    return drawn


def captioned(image: Image, text: str) -> Image:
    """The picture under a strip of text."""
    strip = np.full((_CAPTION_PX, image.shape[1], 3), 255, np.uint8)
    cv2.putText(strip, text, (2, 13), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA)
    return np.concatenate([strip, image])


def sheet(tiles: Sequence[Image], *, columns: int, width: int) -> Image:
    """Tiles scaled to ``width`` pixels each, in rows; rows are as high as their highest tile."""
    if not tiles:
        return np.full((_CAPTION_PX, width, 3), 255, np.uint8)
    scaled = [resized(tile, width, max(1, round(tile.shape[0] * width / tile.shape[1]))) for tile in tiles]
    lines = []
    for start in range(0, len(scaled), columns):
        line = scaled[start : start + columns]
        height = max(tile.shape[0] for tile in line)
        padded = [
            np.pad(tile, ((0, height - tile.shape[0]), (0, 4), (0, 0)), constant_values=255) for tile in line
        ]
        padded += [np.full((height, width + 4, 3), 255, np.uint8)] * (columns - len(line))
        lines.append(np.pad(np.concatenate(padded, 1), ((0, 4), (0, 0), (0, 0)), constant_values=255))
    return np.concatenate(lines)
