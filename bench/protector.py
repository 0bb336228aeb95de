"""The protector as a function on BGR images."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np

from analytics.interface import Image
from base.frames import ClearFrame, ProtectedFrame
from bench.detection import Transform
from models import load_protector


def protector_transform(weights: Path | None = None) -> Transform:
    """Protect a BGR image of any size with the shipped weights, or those in a folder.

    Odd sides are padded by one pixel and cut again.
    """
    protector = load_protector(folder=weights) if weights else load_protector()

    def protect(image_bgr_hwc: Image) -> Image:
        height, width = image_bgr_hwc.shape[:2]
        even = np.pad(image_bgr_hwc, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        return to_bgr(protector.protect(to_clear(even)))[:height, :width]

    return protect


def to_clear(image_bgr_hwc: Image) -> ClearFrame:
    """4:2:0 planes of a BGR image of even size."""
    height, width = image_bgr_hwc.shape[:2]
    picture = av.VideoFrame.from_ndarray(image_bgr_hwc, format="bgr24")
    planes = np.asarray(picture.to_ndarray(format="yuv420p"), np.uint8)
    chroma = planes[height:].reshape(2, height // 2, width // 2)
    return ClearFrame(planes[:height], chroma[0], chroma[1], 0)


def to_bgr(frame: ProtectedFrame) -> Image:
    """The BGR image of 4:2:0 planes."""
    chroma = np.concatenate([frame.cb_hw.ravel(), frame.cr_hw.ravel()]).reshape(-1, frame.width)
    planes = np.ascontiguousarray(np.concatenate([frame.luma_hw, chroma]))
    return np.asarray(
        av.VideoFrame.from_ndarray(planes, format="yuv420p").to_ndarray(format="bgr24"), np.uint8
    )
