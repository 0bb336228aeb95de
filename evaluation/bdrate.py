"""Bjontegaard's delta rate (ITU-T VCEG-M33, 2001): how many more bits for the same quality, on average."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from base.errors import UsageError

RatePoint = tuple[float, float]
"""Bits (any unit) and quality in dB."""


def bd_rate(anchor: Sequence[RatePoint], test: Sequence[RatePoint]) -> float:
    """Mean relative change of bits from ``anchor`` to ``test`` at equal quality; -0.5 is half the bits.

    The logarithm of the rate is a cubic in the quality through four points each (a least-squares fit where
    there are more), integrated over the qualities that both reach; nan where there are none.

    Raises:
        UsageError: fewer than four points, or a rate that is not above zero.
    """
    curves = [_curve(points) for points in (anchor, test)]
    low = max(lowest for _, lowest, _ in curves)
    high = min(highest for _, _, highest in curves)
    if high <= low:
        return math.nan
    areas = []
    for cubic, _, _ in curves:
        integral = np.polyint(cubic)
        areas.append(np.polyval(integral, high) - np.polyval(integral, low))
    return float(10 ** ((areas[1] - areas[0]) / (high - low)) - 1)


def _curve(points: Sequence[RatePoint]) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float, float]:
    if len(points) < 4 or any(rate <= 0 for rate, _ in points):
        raise UsageError("bd_rate: expected at least four points with rates above 0")
    quality = np.array([value for _, value in points])
    cubic = np.polyfit(quality, np.log10([rate for rate, _ in points]), 3)
    return np.asarray(cubic, np.float64), float(quality.min()), float(quality.max())
