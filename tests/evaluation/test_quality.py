"""PSNR and SSIM against arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evaluation.quality import psnr, ssim


def test_psnr_of_a_constant_difference() -> None:
    plane = np.full((32, 32), 100, np.uint8)
    assert psnr(plane, plane + np.uint8(5)) == pytest.approx(20 * math.log10(255 / 5))
    assert math.isinf(psnr(plane, plane))


def test_ssim_of_flat_planes_is_the_luminance_term() -> None:
    one, two = np.full((32, 32), 50, np.uint8), np.full((32, 32), 100, np.uint8)
    c1 = (0.01 * 255) ** 2
    assert ssim(one, two) == pytest.approx((2 * 50 * 100 + c1) / (50**2 + 100**2 + c1))


def test_ssim_of_noise_against_a_slow_computation() -> None:
    rng = np.random.default_rng(3)
    one = rng.integers(0, 256, (15, 17), np.uint8)
    two = np.clip(one + rng.integers(-20, 21, one.shape), 0, 255).astype(np.uint8)
    axis = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    window = np.outer(axis, axis) / axis.sum() ** 2
    values = []
    for top in range(5):
        for left in range(7):
            x, y = (plane[top : top + 11, left : left + 11].astype(float) for plane in (one, two))
            mx, my = (window * x).sum(), (window * y).sum()
            vx, vy = (window * x * x).sum() - mx**2, (window * y * y).sum() - my**2
            shared = (window * x * y).sum() - mx * my
            c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
            upper = (2 * mx * my + c1) * (2 * shared + c2)
            values.append(upper / ((mx**2 + my**2 + c1) * (vx + vy + c2)))
    assert ssim(one, two) == pytest.approx(float(np.mean(values)), abs=1e-6)
