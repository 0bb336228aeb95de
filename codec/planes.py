"""Views on the sample planes of libav pictures, whose rows are padded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane

from base.frames import ClearFrame, ProtectedFrame

Bytes2d = npt.NDArray[np.uint8]


def plane_rows(plane: VideoPlane, width_bytes: int) -> Bytes2d:
    """The plane's rows [H, width_bytes] without padding. Writing to them writes to the picture.

    The view is only valid while the plane's picture lives.
    """
    padded = np.frombuffer(memoryview(plane), np.uint8)
    rows = padded[: plane.height * plane.line_size].reshape(plane.height, plane.line_size)
    return rows[:, :width_bytes]


def planes_of(picture: VideoFrame) -> tuple[Bytes2d, Bytes2d, Bytes2d]:
    """Copies of the luma, cb and cr samples of an 8-bit planar YUV picture, without padding."""
    luma, cb, cr = (plane_rows(plane, plane.width).copy() for plane in picture.planes)
    return luma, cb, cr


def to_picture(frame: ClearFrame | ProtectedFrame) -> VideoFrame:
    """A libav picture (yuv420p) with the frame's samples; no times."""
    picture = VideoFrame(frame.width, frame.height, "yuv420p")
    for plane, samples in zip(picture.planes, (frame.luma_hw, frame.cb_hw, frame.cr_hw), strict=True):
        plane_rows(plane, samples.shape[1])[:] = samples
    return picture


def copy_planes(source: VideoFrame, target: VideoFrame) -> None:
    """Copy all samples between two pictures whose formats have the same memory layout.

    The target may be smaller than the source: it gets the upper left part.
    """
    for reads, writes in zip(source.planes, target.planes, strict=True):
        width_bytes = min(reads.line_size, writes.line_size)
        plane_rows(writes, width_bytes)[:] = plane_rows(reads, width_bytes)[: writes.height]
