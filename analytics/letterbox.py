"""Fitting a picture into a network's fixed input, and boxes back out of it."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

PAD_VALUE = 114  # the grey that YOLO networks were trained with


@dataclass(frozen=True, slots=True)
class Letterbox:
    """Where a picture lies inside a network input: scaled, at the top left corner, grey elsewhere.

    Scaling keeps the aspect ratio up to rounding to whole pixels, so each axis has its own exact scale.
    """

    source_width: int
    source_height: int
    inner_width: int
    inner_height: int
    input_width: int
    input_height: int

    @classmethod
    def fit(cls, source_wh: tuple[int, int], input_wh: tuple[int, int]) -> Letterbox:
        """The largest placement of a source inside the input; sizes are (width, height) in pixels."""
        ratio = min(input_wh[0] / source_wh[0], input_wh[1] / source_wh[1])
        inner_width = max(1, min(input_wh[0], round(source_wh[0] * ratio)))
        inner_height = max(1, min(input_wh[1], round(source_wh[1] * ratio)))
        return cls(*source_wh, inner_width, inner_height, *input_wh)

    def apply(self, image_hwc: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The picture [source H, source W, 3] as network input [input H, input W, 3]."""
        canvas = np.full((self.input_height, self.input_width, image_hwc.shape[2]), PAD_VALUE, np.uint8)
        inner_wh = (self.inner_width, self.inner_height)
        canvas[: self.inner_height, : self.inner_width] = cv2.resize(
            image_hwc, inner_wh, interpolation=cv2.INTER_LINEAR
        )
        return canvas

    def boxes_to_source(self, boxes_xyxy: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Boxes [n, 4] in pixels of the input, in pixels of the source; not cut to it."""
        source = np.array([self.source_width, self.source_height] * 2, np.float64)
        inner = np.array([self.inner_width, self.inner_height] * 2, np.float64)
        return (boxes_xyxy * (source / inner)).astype(np.float32)
