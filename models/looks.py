"""What the gate network found, over time: doors shut at once and open late."""

from __future__ import annotations

import cv2
import numpy as np

from models.session import Array

KEPT_LOOKS = 4
"""A block opens after this many looks in a row allowed it."""
QUIET_GAP = 8
"""Pictures between two looks while nothing changes."""


class LookMemory:
    """Gates and thresholds in force for a video."""

    def __init__(self, refresh: int) -> None:
        """``refresh``: pictures from one look to the next while something changes."""
        self._refresh = refresh
        self._gates: list[Array] = []
        self._thresholds: list[Array] = []
        self._age = 0
        self._quiet = 0  # looks since anything changed
        self._held: tuple[Array, Array] | None = None

    @property
    def in_force(self) -> tuple[Array, Array]:
        """Gates and thresholds, each [1, bands, H/8, W/8]: as shut and as cored as any of the last looks.

        With looks at some pictures only, every block is also as shut as the most shut of its eight
        neighbours, so that a face may move 8 pixels between two looks.
        """
        if self._held is None:
            gates = np.minimum.reduce(self._gates)
            if self._refresh > 1:
                gates = widened(gates)
            self._held = (gates, np.maximum.reduce(self._thresholds))
        return self._held

    def is_due(self, *, changing: bool) -> bool:
        """Whether to look at this picture; call once for every picture."""
        self._age += 1
        if changing:
            self._quiet = 0
        gap = self._refresh if self._quiet < KEPT_LOOKS else max(self._refresh, QUIET_GAP)
        return not self._gates or self._age >= gap

    def add(self, gates: Array, thresholds: Array) -> None:
        """A new look; the oldest is forgotten."""
        self._gates = [*self._gates, gates][-KEPT_LOOKS:]
        self._thresholds = [*self._thresholds, thresholds][-KEPT_LOOKS:]
        self._age = 0
        self._quiet += 1
        self._held = None


def widened(gates: Array) -> Array:
    """Every block as shut as the most shut of its eight neighbours: [1, bands, h, w]."""
    kernel = np.ones((3, 3), np.uint8)
    return np.stack([np.asarray(cv2.erode(band, kernel), np.uint8) for band in gates[0]])[None]
