"""PSNR and SSIM of 8-bit planes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from base.frames import ClearFrame, Plane, ProtectedFrame

_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
Frame = ClearFrame | ProtectedFrame


def psnr(first: Plane, second: Plane) -> float:
    """Peak signal to noise in dB over all samples; inf where they are equal."""
    error = float(np.mean((first.astype(np.float64) - second) ** 2))
    return 10 * math.log10(255**2 / error) if error else math.inf


def ssim(first: Plane, second: Plane) -> float:
    """Structural similarity (Wang et al. 2004): Gaussian window 11x11, sigma 1.5, valid part."""
    one, two = first.astype(np.float64), second.astype(np.float64)

    def blurred(plane: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(cv2.GaussianBlur(plane, (11, 11), 1.5), np.float64)[5:-5, 5:-5]

    mean_one, mean_two = blurred(one), blurred(two)
    spread_one = blurred(one * one) - mean_one**2
    spread_two = blurred(two * two) - mean_two**2
    shared = blurred(one * two) - mean_one * mean_two
    upper = (2 * mean_one * mean_two + _C1) * (2 * shared + _C2)
    lower = (mean_one**2 + mean_two**2 + _C1) * (spread_one + spread_two + _C2)
    return float((upper / lower).mean())


def luma_psnr(first: Sequence[Frame], second: Sequence[Frame]) -> float:
    """Mean over pictures of the luma PSNR in dB, as codec comparisons use it; equal pictures count 100."""
    values = [min(psnr(a.luma_hw, b.luma_hw), 100.0) for a, b in zip(first, second, strict=True)]
    return float(np.mean(values))
