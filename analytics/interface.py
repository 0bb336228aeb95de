"""The seam between detectors and everything that uses them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from analytics.detections import Detections
from base.errors import UsageError

Image = npt.NDArray[np.uint8]
Progress = Callable[[int, int], None]


class Detector(Protocol):
    """Finds objects in protected pictures. Not safe for two threads at once."""

    @property
    def name(self) -> str:
        """What is running, for reports: the kind and the file or model."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Every class that it can report, in the order of its class ids."""

    def detect(self, frame_bgr_hwc: Image) -> Detections:
        """Boxes in pixels of ``frame_bgr_hwc`` (uint8 BGR, [H, W, 3])."""


@dataclass(frozen=True, slots=True)
class DetectorConfig:
    """Thresholds and threads of a detector.

    Attributes:
        min_score: detections below are dropped, 0 to 1.
        max_overlap_iou: of two boxes of one class that overlap more, the weaker is dropped.
        max_detections: at most so many per picture, the strongest first.
        threads: CPU threads of the run-time; None leaves it to the run-time.
        any_size: look at a picture at its own size, so that the cost is proportional to its pixels (tiles);
            otherwise YOLOX scales every picture to the one size that its file declares. YOLOX then needs the
            extra ``worker``.
        max_side: with ``any_size``, pictures with a longer side (pixels) are scaled down; None: 4096.
    """

    min_score: float = 0.3
    max_overlap_iou: float = 0.5
    max_detections: int = 300
    threads: int | None = None
    any_size: bool = False
    max_side: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("min_score", self.min_score), ("max_overlap_iou", self.max_overlap_iou)):
            if not 0 <= value <= 1:
                message = f"{name}: expected 0 to 1, got {value}"
                raise UsageError(message)
        if self.max_detections < 1 or (self.threads is not None and self.threads < 1):
            raise UsageError("max_detections and threads: expected at least 1")
        if self.max_side is not None and not 32 <= self.max_side <= 4096:
            message = f"max_side: expected 32 to 4096 pixels, got {self.max_side}"
            raise UsageError(message)


def check_image(frame_bgr_hwc: Image) -> tuple[int, int]:
    """Height and width of a picture that a detector can take.

    Raises:
        UsageError: not uint8 [H, W, 3].
    """
    shape = frame_bgr_hwc.shape
    if frame_bgr_hwc.dtype != np.uint8 or len(shape) != 3 or shape[2] != 3 or 0 in shape:
        message = f"picture: expected uint8 [H, W, 3] BGR, got {frame_bgr_hwc.dtype} {list(shape)}"
        raise UsageError(message)
    return shape[0], shape[1]
