"""Leaves sharp what analytics look for, and makes all else coarse (ADR 0021).

The gates say what must not be seen. This adds what need not be seen: where no person and no vehicle is, only
cells of several pixels remain, which costs few bits and takes bystanding detail along. It only shuts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from base.errors import UsageError
from models.object_finder import MIN_SCORE, FoundObjects
from models.pyramid import GATE_ONE
from models.session import Array

SURE_SCORE = 0.08
"""From here on an object is left as it is; below, the background comes in by fractions of octaves."""
LARGE_SHARE, LARGE_SURE_SCORE, LARGE_MIN_SCORE = 0.5, 0.3, 0.1
"""The same for boxes that cover so much of the picture: what the finder imagines is often as large as all."""
REACH_SHARE, REACH_PX = 0.1, 8.0
"""What belongs to an object: this share of its longer side and so many pixels around its box."""
BACKGROUND_CORING = 4
"""Grey levels of detail that are removed of whatever loses an octave or more."""
KEPT_FINDS = 2
"""In a video an object stays sharp until so many looks in a row have missed it."""

Floats = npt.NDArray[np.floating[Any]]
Floor = npt.NDArray[np.int16]
"""Least coarseness per 8x8 block in GATE_ONE per octave, [H/8, W/8]."""


class Background(StrEnum):
    """What becomes of everything but people and vehicles."""

    COARSE = "coarse"
    FINE = "fine"


def background_named(name: str | None, *, pixels: bool) -> Background:
    """The background called ``coarse`` or ``fine``.

    Unless told, ``fine`` with the pixel path, which brings back little where much is missing; else
    ``coarse``.

    Raises:
        UsageError: another name.
    """
    if name is None:
        return Background.FINE if pixels else Background.COARSE
    try:
        return Background(name)
    except ValueError:
        raise UsageError(f"background: expected coarse or fine, got {name!r}") from None


def reach_around(boxes_xyxy: Floats) -> Floats:
    """How many pixels around each box [n, 4] belong to its object: [n]."""
    longer_sides = (boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]).max(1, initial=0)
    return np.asarray(REACH_PX + REACH_SHARE * longer_sides)


def floor_around(objects: FoundObjects, blocks_hw: tuple[int, int], octaves: int) -> Floor:
    """The least coarseness of every block: none on objects, ``octaves`` (whole ones) far from any."""
    levels = np.full(blocks_hw, octaves, np.int16)
    boxes = objects.boxes_xyxy
    allowed = np.round(octaves * _doubts(objects, blocks_hw)).astype(np.int16)
    reach = reach_around(boxes)
    first = np.floor((boxes[:, :2] - reach[:, None]) / 8).clip(0, max(blocks_hw)).astype(int)
    last = np.ceil((boxes[:, 2:] + reach[:, None]) / 8).clip(0, max(blocks_hw)).astype(int)
    for (left, top), (right, bottom), level in zip(first, last, allowed, strict=True):
        window = levels[top:bottom, left:right]
        np.minimum(window, level, out=window)
    return np.asarray(levels * GATE_ONE, np.int16)


def _doubts(objects: FoundObjects, blocks_hw: tuple[int, int]) -> npt.NDArray[np.float32]:
    """How far each object is from being sure, 0..1."""
    height, width = 8 * blocks_hw[0], 8 * blocks_hw[1]
    inside = objects.boxes_xyxy.clip(0, [width, height, width, height])
    is_large = (inside[:, 2:] - inside[:, :2]).clip(0).prod(1) > LARGE_SHARE * height * width
    sure = np.where(is_large, LARGE_SURE_SCORE, SURE_SCORE)
    least = np.where(is_large, LARGE_MIN_SCORE, MIN_SCORE)
    return np.asarray(np.clip((sure - objects.scores) / (sure - least), 0, 1), np.float32)


def with_floor(gates: Array, thresholds: Array, floor: Floor | None) -> tuple[Array, Array]:
    """Maps that are at least as coarse and as cored as ``floor`` asks for.

    Args:
        gates: [1, bands, H/8, W/8] in 0..GATE_ONE, finest band first.
        thresholds: likewise, coring thresholds in grey levels.
        floor: None leaves both as they are.
    """
    if floor is None:
        return gates, thresholds
    bands = GATE_ONE * np.arange(1, gates.shape[1] + 1, dtype=np.int16)
    most_open = np.clip(bands.reshape(1, -1, 1, 1) - floor, 0, GATE_ONE).astype(np.uint8)
    least_cored = (BACKGROUND_CORING * np.minimum(floor, GATE_ONE) // GATE_ONE).astype(np.uint8)
    return np.minimum(gates, most_open), np.maximum(thresholds, least_cored)


class BackgroundMemory:
    """The floor over a video: a new object lowers it at once, one that is gone only later."""

    def __init__(self) -> None:
        self._floors: list[Floor] = []
        self._in_force: Floor | None = None

    def add(self, floor: Floor) -> None:
        """A new look; objects may have moved by 8 pixels before the next."""
        self._floors = [*self._floors, floor][-KEPT_FINDS:]
        fewest = np.minimum.reduce(self._floors)
        self._in_force = np.asarray(cv2.erode(fewest, np.ones((3, 3), np.uint8)), np.int16)

    @property
    def in_force(self) -> Floor | None:
        """As low as any of the last looks left it; None before the first."""
        return self._in_force
