from __future__ import annotations

import pytest

from analytics.worker.estimate import MAX_SAMPLES, WINDOW_S, Estimate


def test_nothing_is_known_at_first() -> None:
    assert Estimate().at_least_s(1000, 0) == 0


def test_a_smaller_request_takes_its_share_and_a_larger_one_no_less() -> None:
    estimate = Estimate()
    estimate.add(1000, 0.2, 10)
    assert estimate.at_least_s(500, 11) == pytest.approx(0.1)
    assert estimate.at_least_s(1000, 11) == pytest.approx(0.2)
    assert estimate.at_least_s(2000, 11) == pytest.approx(0.2)


def test_a_request_much_larger_than_all_before_is_tried() -> None:
    estimate = Estimate()
    estimate.add(1000, 0.2, 10)
    assert estimate.at_least_s(2001, 11) == 0


def test_the_most_hopeful_sample_counts() -> None:
    estimate = Estimate()
    for took_s in (0.4, 0.1, 0.3):
        estimate.add(1000, took_s, 10)
    assert estimate.at_least_s(1000, 11) == pytest.approx(0.1)


def test_old_samples_are_forgotten_so_that_nobody_starves() -> None:
    estimate = Estimate()
    for _ in range(2 * MAX_SAMPLES):
        estimate.add(1000, 9.0, 10)
    assert estimate.at_least_s(1000, 10 + WINDOW_S) == 9
    assert estimate.at_least_s(1000, 10.1 + WINDOW_S) == 0
