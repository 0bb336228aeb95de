"""Figures with 95 % intervals: proportions, means, ratios resampled in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
ROUNDS = 1000
_Z = 1.959963984540054  # of the normal distribution, two-sided 95 %


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, its 95 % interval, and how many independent things it comes from."""

    value: float
    low: float
    high: float
    n: int


NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


def proportion(hits: int, n: int) -> Estimate:
    """Hits of n with the Wilson score interval (Wilson 1927), which stays honest at 0 of n."""
    if not n:
        return NOTHING
    share = hits / n
    scale = 1 + _Z**2 / n
    centre = (share + _Z**2 / (2 * n)) / scale
    half = _Z / scale * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return Estimate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)), n)


def mean(values: Sequence[float] | Floats) -> Estimate:
    """Mean with a percentile bootstrap over the values; those that are not finite are left out."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return NOTHING
    return resampled(lambda weights: float(known @ weights / weights.sum()), len(known))


def resampled(figure: Callable[[Floats], float], num_units: int, *, n: int | None = None) -> Estimate:
    """``figure`` of weights per unit: all once, then resampled with replacement for the interval.

    Args:
        figure: takes weights [units], how often each unit counts; nan where it is not defined.
        num_units: pictures, clips or people that are drawn as a whole.
        n: what to report as n, if it is not ``num_units``.
    """
    if not num_units:
        return NOTHING
    value = figure(np.ones(num_units))
    spread = np.array([figure(weights) for weights in bootstrap_weights(num_units, ROUNDS)])
    known = spread[np.isfinite(spread)]
    low, high = np.percentile(known, [2.5, 97.5]) if len(known) else (math.nan, math.nan)
    return Estimate(value, float(low), float(high), num_units if n is None else n)


def bootstrap_weights(num_units: int, rounds: int, seed: int = 0) -> Floats:
    """How often each unit occurs in each of ``rounds`` resamples with replacement: [rounds, units]."""
    random = np.random.default_rng(seed)
    return random.multinomial(num_units, np.full(num_units, 1 / num_units), rounds).astype(np.float64)


def interval_95(values: Sequence[float]) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of the values that are numbers."""
    low, high = np.nanpercentile(np.asarray(values), [2.5, 97.5])
    return float(low), float(high)
