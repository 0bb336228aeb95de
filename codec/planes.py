"""Views on the sample planes of libav pictures, whose rows are padded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane

Bytes2d = npt.NDArray[np.uint8]


def plane_rows(plane: VideoPlane, width_bytes: int) -> Bytes2d:
    """The plane's rows [H, width_bytes] without padding. Writing to them writes to the picture.

    The view is only valid while the plane's picture lives.
    """
    padded = np.frombuffer(memoryview(plane), np.uint8)
    rows = padded[: plane.height * plane.line_size].reshape(plane.height, plane.line_size)
    return rows[:, :width_bytes]


def copy_planes(source: VideoFrame, target: VideoFrame) -> None:
    """Copy all samples between two pictures whose formats have the same memory layout.

    The target may be smaller than the source: it gets the upper left part.
    """
    for reads, writes in zip(source.planes, target.planes, strict=True):
        width_bytes = min(reads.line_size, writes.line_size)
        plane_rows(writes, width_bytes)[:] = plane_rows(reads, width_bytes)[: writes.height]
