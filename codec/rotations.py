"""Haar-random rotations of the pixel path, drawn from a segment's key stream (docs/format.md, pixel path).

A point that is uniform on a sphere stays uniform under every rotation; a fixed point under a Haar-random
rotation becomes uniform. So rotated latents say nothing about the picture to whoever lacks the key, whatever
else he knows, and an isometry does not amplify what the codec did to them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from keys.schedule import PixelStream

Float = npt.NDArray[np.float32]

_CELLS_PER_READ = 4096  # bounds the working memory: about 6 MB of Gaussians at 12 channels


class Rotations:
    """One orthogonal matrix per cell of a picture; the same for a whole segment."""

    def __init__(self, stream: PixelStream, channels: int, rows: int, columns: int) -> None:
        """Draw them: cells row by row, each from channels * (channels + 1) / 2 Gaussians.

        The product of Householder reflections of Gaussian vectors of length C, C-1, ..., 1, with
        the signs that make it Haar-distributed on the orthogonal group (Stewart 1980, Mezzadri 2007).
        """
        self.shape = (channels, rows, columns)
        total = rows * columns
        self._matrices = np.empty((total, channels, channels), np.float32)
        for start in range(0, total, _CELLS_PER_READ):
            count = min(_CELLS_PER_READ, total - start)
            normal = _gaussians(stream, count * channels * (channels + 1) // 2)
            self._matrices[start : start + count] = _haar(normal.reshape(count, -1), channels)

    @property
    def num_bytes(self) -> int:
        """Memory that they take."""
        return self._matrices.nbytes

    def turn(self, latents_chw: Float, cells: tuple[slice, slice, slice] = np.s_[:, :, :]) -> Float:
        """R z in every cell; ``cells`` is where the latents lie in [C, rows, columns], if not all over."""
        return np.asarray(np.einsum("hwij,jhw->ihw", self._by_place[cells[1:]], latents_chw), np.float32)

    def turn_back(self, latents_chw: Float) -> Float:
        """R^T z in every cell of [C, rows, columns]."""
        return np.asarray(np.einsum("hwji,jhw->ihw", self._by_place, latents_chw), np.float32)

    @property
    def _by_place(self) -> Float:
        channels, rows, columns = self.shape
        return self._matrices.reshape(rows, columns, channels, channels)


def _gaussians(stream: PixelStream, count: int) -> npt.NDArray[np.float64]:
    """Standard normal numbers by pairs from pairs of big-endian u32 (Box & Muller 1958)."""
    pairs = -(-count // 2)
    words = np.frombuffer(stream.read(8 * pairs), ">u4").astype(np.float64).reshape(pairs, 2)
    radius = np.sqrt(-2 * np.log((words[:, 0] + 0.5) / 2**32))
    angle = 2 * np.pi * words[:, 1] / 2**32
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()[:count]


def _haar(normal: npt.NDArray[np.float64], channels: int) -> npt.NDArray[np.float64]:
    """[n, channels * (channels + 1) / 2] Gaussians -> [n, channels, channels] orthogonal matrices."""
    matrices = np.tile(np.eye(channels), (len(normal), 1, 1))
    taken = 0
    for length in range(channels, 0, -1):
        vector = normal[:, taken : taken + length].copy()
        taken += length
        sign = np.where(vector[:, 0] < 0, -1.0, 1.0)
        vector[:, 0] += sign * np.linalg.norm(vector, axis=1)
        vector /= np.maximum(np.linalg.norm(vector, axis=1, keepdims=True), 1e-300)
        block = matrices[:, :, channels - length :]
        block -= 2 * np.matmul(block, vector[:, :, None]) * vector[:, None, :]
        block *= -sign[:, None, None]
    return matrices
