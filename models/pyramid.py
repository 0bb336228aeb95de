"""The generator's gated Laplacian pyramid on 8-bit planes, in integers.

The same arithmetic as ``models.train.networks.gated_pyramid`` up to 8-bit rounding, several
times faster than the float graph: a plane is split in bands, every band is cored and gated
by its own map, and the plane is rebuilt. A gate of zero removes its band exactly.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Plane = npt.NDArray[np.uint8]
GATE_ONE = 128
"""Integer gates run from 0 (shut) to this (open): 255 * 128 still fits 16 bits."""


class _Level:
    """Buffers of one pyramid level, reused from frame to frame: fresh pages cost more than the sums."""

    def __init__(self, height: int, width: int) -> None:
        self.size = (width, height)
        self.coarse = np.empty((height, width), np.uint8)
        self.map = np.empty((height, width), np.uint8)
        self.detail = np.empty((height, width), np.int16)
        self.limit = np.empty((height, width), np.int16)
        self.small = np.empty((height, width), np.int16)
        self.rebuilt = np.empty((height, width), np.uint8)


class GatedPyramid:
    """Rebuilds planes of one size from what their gates let through. Not for two threads at once."""

    def __init__(self, height: int, width: int, bands: int) -> None:
        """Height and width must be multiples of ``2 ** bands``."""
        self._levels = [_Level(height >> band, width >> band) for band in range(bands)]
        self._pooled = [np.empty((height >> band, width >> band), np.uint8) for band in range(1, bands + 1)]

    def __call__(self, plane: Plane, gates: Plane, thresholds: Plane) -> Plane:
        """Filter one plane.

        Args:
            plane: [H, W].
            gates: [bands, h, w] in 0..GATE_ONE, finest band first, at any lower resolution.
            thresholds: [bands, h, w], coring thresholds in units of the plane.

        Returns:
            [H, W], a buffer that the next call overwrites.
        """
        fine = plane
        for pooled in self._pooled:
            cv2.resize(fine, pooled.shape[::-1], dst=pooled, interpolation=cv2.INTER_AREA)
            fine = pooled
        rebuilt = self._pooled[-1]
        pictures = [plane, *self._pooled]
        for band in range(len(self._levels) - 1, -1, -1):
            level = self._levels[band]
            _keep_detail(level, pictures[band], pictures[band + 1], gates[band], thresholds[band])
            level.detail += _enlarge(rebuilt, level.size, level.map)
            np.clip(level.detail, 0, 255, out=level.detail)
            np.copyto(level.rebuilt, level.detail, casting="unsafe")
            rebuilt = level.rebuilt
        return rebuilt


def _enlarge(small: Plane, size: tuple[int, int], out: Plane) -> Plane:
    return np.asarray(cv2.resize(small, size, dst=out, interpolation=cv2.INTER_LINEAR), np.uint8)


def _keep_detail(level: _Level, fine: Plane, coarse: Plane, gate: Plane, threshold: Plane) -> None:
    """Put one band in ``level.detail``: |detail| below the threshold removed, the rest gated."""
    detail, limit, small = level.detail, level.limit, level.small
    np.subtract(fine, _enlarge(coarse, level.size, level.coarse), out=detail, dtype=np.int16)
    np.copyto(limit, _enlarge(threshold, level.size, level.map))
    np.minimum(detail, limit, out=small)
    np.negative(limit, out=limit)
    np.maximum(small, limit, out=small)
    detail -= small
    np.copyto(limit, _enlarge(gate, level.size, level.map))
    detail *= limit
    detail += GATE_ONE // 2
    detail >>= 7
