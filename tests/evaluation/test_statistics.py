"""Intervals against published and exactly known values."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.bdrate import bd_rate
from evaluation.identify import attempt
from evaluation.statistics import mean, proportion, resampled

# The curves that implementations of VCEG-M33 are usually tried on (Anserw/Bjontegaard_metric).
ANCHOR = ((686.76, 40.28), (309.58, 37.18), (157.11, 34.24), (85.95, 31.42))
OTHER = ((893.34, 40.39), (407.8, 37.21), (204.93, 34.17), (112.75, 31.24))


def test_wilson_interval_of_a_textbook_example() -> None:
    # Newcombe (1998), Statistics in Medicine 17:857, table I: 81 of 263 gives .2553 to .3662 (method 3).
    estimate = proportion(81, 263)
    assert (estimate.low, estimate.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_nothing_seen_is_not_proof_of_nothing() -> None:
    # Newcombe (1998), same table: 0 of 20 gives 0 to .1611.
    estimate = proportion(0, 20)
    assert estimate.low == 0
    assert estimate.high == pytest.approx(0.1611, abs=5e-5)


def test_a_mean_leaves_out_what_is_not_a_number() -> None:
    estimate = mean([1.0, 2.0, float("nan"), 3.0])
    assert (estimate.value, estimate.n) == (2.0, 3)
    assert 1.0 <= estimate.low <= 2.0 <= estimate.high <= 3.0
    assert mean([]).n == 0


def test_resampling_draws_whole_units() -> None:
    seen: list[float] = []

    def figure(weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        seen.append(float(weights.sum()))
        return float(weights[0])

    assert resampled(figure, 7).value == 1.0
    assert set(seen) == {7.0}


def test_equal_curves_cost_the_same() -> None:
    assert bd_rate(ANCHOR, ANCHOR) == pytest.approx(0)


@pytest.mark.parametrize("factor", [0.5, 2.0, 1.1])
def test_a_constant_factor_of_bits_is_returned(factor: float) -> None:
    scaled = [(rate * factor, quality) for rate, quality in ANCHOR]
    assert bd_rate(ANCHOR, scaled) == pytest.approx(factor - 1)


def test_the_usual_example_of_the_metric() -> None:
    # The cubics through four points by Lagrange's formula, integrated by Simpson's rule in 20,000 steps.
    assert bd_rate(ANCHOR, OTHER) == pytest.approx(0.3139737, abs=1e-6)


def test_curves_without_common_quality_have_no_rate() -> None:
    assert np.isnan(bd_rate(ANCHOR, [(rate, quality + 20) for rate, quality in ANCHOR]))


def test_ranks_and_true_accepts_by_hand() -> None:
    # Three probes of people 0, 1, 2; the second is nearer to person 0.
    attack = attempt(np.array([[0.1, 0.9, 0.8], [0.3, 0.4, 0.7], [0.6, 0.9, 0.2]]), [0, 1, 2])
    assert attack.hits.tolist() == [True, False, True]
    assert attack.rank1().value == pytest.approx(2 / 3)
    # No wrong pair of six may pass (int(6e-3) = 0): right ones below the nearest wrong one (0.3) are two.
    assert attack.true_accepts().value == pytest.approx(2 / 3)
    # A sixth may: the limit is the second nearest wrong one, 0.6, and all three pass.
    assert attack.true_accepts(1 / 6).value == 1.0
