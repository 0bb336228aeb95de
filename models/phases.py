"""A network's answer by phase of its cells, added to the samples of a plane."""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

from models.session import Array


def add_phases(
    plane: Array, phases: Iterable[npt.NDArray[np.int8] | Array], scratch: npt.NDArray[np.int16]
) -> Array:
    """``plane`` [H, W] plus its change, clipped; freshly allocated.

    Args:
        plane: the samples.
        phases: s * s times [H/s, W/s] of int8 (or the same as bytes), the phases of a cell row by row.
        scratch: [H, W], overwritten: fresh pages cost more than the sums.
    """
    parts = list(phases)
    stride = int(len(parts) ** 0.5)
    for row in range(stride):
        # OpenCV's merge interleaves ten times faster than a transposed copy.
        merged = cv2.merge(parts[row * stride : (row + 1) * stride]).view(np.int8)
        np.add(plane[row::stride], merged.reshape(len(merged), -1), out=scratch[row::stride], dtype=np.int16)
    return np.clip(scratch, 0, 255, out=scratch).astype(np.uint8)
