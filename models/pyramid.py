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


class Level:
    """One pyramid level and its buffers, reused from call to call: fresh pages cost more than the sums."""

    def __init__(self, height: int, width: int, channels: int = 1) -> None:
        shape = (height, width) if channels == 1 else (height, width, channels)
        self._size = (width, height)
        self._channels = channels
        self._coarse = np.empty(shape, np.uint8)
        self._map = np.empty((height, width), np.uint8)
        self._maps = np.empty(shape, np.uint8)
        self._detail = np.empty(shape, np.int16)
        self._limit = np.empty(shape, np.int16)
        self._small = np.empty(shape, np.int16)
        self._rebuilt = np.empty(shape, np.uint8)

    def rebuild(self, fine: Plane, coarse: Plane, rebuilt: Plane, gate: Plane, threshold: Plane) -> Plane:
        """The level from the one below: ``rebuilt`` enlarged, plus what is let through of the detail.

        Args:
            fine: [h, w] or [h, w, channels].
            coarse: [h/2, w/2, ...], ``fine`` pooled.
            rebuilt: [h/2, w/2, ...].
            gate: in 0..GATE_ONE, at any lower resolution.
            threshold: coring threshold in units of the plane, likewise.

        Returns:
            [h, w, ...], a buffer that the next call overwrites.
        """
        detail, limit, small = self._detail, self._limit, self._small
        np.subtract(fine, _enlarge(coarse, self._size, self._coarse), out=detail, dtype=np.int16)
        np.copyto(limit, self._enlarged_map(threshold))
        np.minimum(detail, limit, out=small)
        np.negative(limit, out=limit)
        np.maximum(small, limit, out=small)
        detail -= small
        np.copyto(limit, self._enlarged_map(gate))
        detail *= limit
        detail += GATE_ONE // 2
        detail >>= 7
        detail += _enlarge(rebuilt, self._size, self._coarse)
        np.maximum(detail, 0, out=detail)
        np.minimum(detail, 255, out=detail)
        np.copyto(self._rebuilt, detail, casting="unsafe")
        return self._rebuilt

    def _enlarged_map(self, small: Plane) -> Plane:
        enlarged = _enlarge(small, self._size, self._map)
        if self._channels == 1:
            return enlarged
        return np.asarray(cv2.merge([enlarged] * self._channels, dst=self._maps), np.uint8)


class GatedPyramid:
    """Rebuilds planes of one size from what their gates let through. Not for two threads at once."""

    def __init__(self, height: int, width: int, bands: int, channels: int = 1) -> None:
        """Height and width must be multiples of ``2 ** bands``."""
        tail = () if channels == 1 else (channels,)
        self._levels = [Level(height >> band, width >> band, channels) for band in range(bands)]
        self._pooled = [
            np.empty((height >> band, width >> band, *tail), np.uint8) for band in range(1, bands + 1)
        ]

    def __call__(self, plane: Plane, gates: Plane, thresholds: Plane) -> Plane:
        """Filter one plane, or several channels by the same gates.

        Args:
            plane: [H, W] or [H, W, channels].
            gates: [bands, h, w] in 0..GATE_ONE, finest band first, at any lower resolution.
            thresholds: [bands, h, w], coring thresholds in units of the plane.

        Returns:
            Like ``plane``; a buffer that the next call overwrites.
        """
        fine = plane
        for pooled in self._pooled:
            fine = pool(fine, pooled)
        rebuilt = self._pooled[-1]
        pictures = [plane, *self._pooled]
        for band in range(len(self._levels) - 1, -1, -1):
            rebuilt = self._levels[band].rebuild(
                pictures[band], pictures[band + 1], rebuilt, gates[band], thresholds[band]
            )
        return rebuilt


def pool(plane: Plane, out: Plane) -> Plane:
    """Means of 2x2 samples; ``out`` is [H/2, W/2] or [H/2, W/2, channels]."""
    size = (out.shape[1], out.shape[0])
    return np.asarray(cv2.resize(plane, size, dst=out, interpolation=cv2.INTER_AREA), np.uint8)


def join(*planes: Plane) -> Plane:
    """Planes [H, W] as the channels of one [H, W, num]."""
    return np.asarray(cv2.merge(planes), np.uint8)


def split(channels: Plane) -> list[Plane]:
    """The planes that :func:`join` joined, each contiguous."""
    return [np.asarray(plane, np.uint8) for plane in cv2.split(channels)]


def _enlarge(small: Plane, size: tuple[int, int], out: Plane) -> Plane:
    return np.asarray(cv2.resize(small, size, dst=out, interpolation=cv2.INTER_LINEAR), np.uint8)
