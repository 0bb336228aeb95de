"""Frames at the stream's size: a camera that comes back with another one is scaled to the first."""

from __future__ import annotations

import cv2
import numpy as np

from base.frames import ClearFrame, Plane


def fitted(frame: ClearFrame, size: tuple[int, int]) -> ClearFrame:
    """``frame`` itself if it has the ``size`` (width, height), else scaled to it."""
    width, height = size
    if (frame.width, frame.height) == size:
        return frame

    def scaled(plane: Plane, columns: int, rows: int) -> Plane:
        return np.asarray(cv2.resize(plane, (columns, rows), interpolation=cv2.INTER_AREA), np.uint8)

    half = (width // 2, height // 2)
    return ClearFrame(
        scaled(frame.luma_hw, width, height),
        scaled(frame.cb_hw, *half),
        scaled(frame.cr_hw, *half),
        frame.time_us,
    )
