"""BGR pictures to 4:2:0 frames and back, padding odd sides, enlarging and pasting."""

from __future__ import annotations

from typing import TypeVar

import av
import cv2
import numpy as np

from analytics.interface import Image
from base.frames import ClearFrame, ProtectedFrame
from codec.planes import planes_of, to_picture

FrameType = TypeVar("FrameType", ClearFrame, ProtectedFrame)


def to_clear(image_bgr_hwc: Image, time_us: int = 0) -> ClearFrame:
    """4:2:0 planes of a BGR picture; odd sides are padded by a row or column."""
    height, width = image_bgr_hwc.shape[:2]
    even = np.pad(image_bgr_hwc, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return from_video_frame(av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="bgr24"), time_us)


def from_video_frame(picture: av.VideoFrame, time_us: int = 0) -> ClearFrame:
    """Planes of a decoded picture of any format; an odd last row or column is left out."""
    width, height = picture.width & ~1, picture.height & ~1
    planar = picture if picture.format.name == "yuv420p" else picture.reformat(format="yuv420p")
    luma, cb, cr = planes_of(planar)
    half = np.s_[: height // 2, : width // 2]
    return ClearFrame(luma[:height, :width], cb[half], cr[half], time_us)


def to_bgr(frame: ClearFrame | ProtectedFrame) -> Image:
    """The BGR picture of 4:2:0 planes."""
    return np.asarray(to_picture(frame).to_ndarray(format="bgr24"), np.uint8)


def resized(image: Image, width: int, height: int) -> Image:
    """Area averaging where it shrinks, cubic where it grows."""
    shrinks = width < image.shape[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, (width, height), interpolation=how), np.uint8)


def paste(frame: Image, crop: Image, left: int, top: int, side: int) -> None:
    """Draw ``crop`` into ``frame`` as a square of ``side`` pixels."""
    frame[top : top + side, left : left + side] = resized(crop, side, side)
