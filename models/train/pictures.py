"""OpenCV calls with the types that the rest of the training code relies on."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
"""RGB, [H, W, 3]."""


def read_rgb(path: Path) -> Image | None:
    """A picture file as RGB, None if it is none."""
    bgr = cv2.imread(str(path))
    return None if bgr is None else bgr_to_rgb(np.asarray(bgr, np.uint8))


def bgr_to_rgb(bgr_hwc: Image) -> Image:
    """The same picture with its channels reversed."""
    return np.asarray(cv2.cvtColor(bgr_hwc, cv2.COLOR_BGR2RGB), np.uint8)


def resized(image: Image, width: int, height: int) -> Image:
    """Area-averaged when smaller, bilinear when larger."""
    how = cv2.INTER_AREA if width < image.shape[1] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=how), np.uint8)


def scaled(image: Image, factor: float) -> Image:
    """Both sides times ``factor``, rounded up."""
    height, width = image.shape[:2]
    return resized(image, int(np.ceil(width * factor)), int(np.ceil(height * factor)))


def soft_ellipse(height: int, width: int, share: tuple[float, float], blur: float) -> npt.NDArray[np.float32]:
    """Mask [H, W, 1] in 0..1: an ellipse with semi-axes ``share`` (x, y) of the sides, edges blurred."""
    mask = np.zeros((height, width), np.float32)
    axes = (max(1, int(width * share[0])), max(1, int(height * share[1])))
    cv2.ellipse(mask, (width // 2, height // 2), axes, 0, 0, 360, 1.0, -1)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), blur), np.float32)[..., None]
