from __future__ import annotations

import pytest

from analytics.worker.estimate import MAX_SAMPLES, STALE_S, WINDOW_S, Estimate


def test_nothing_is_known_at_first() -> None:
    assert Estimate().needs_s(1000, 0) == 0


def test_a_smaller_request_takes_its_share_and_a_larger_one_no_less() -> None:
    estimate = Estimate()
    estimate.add(1000, 0.2, 10)
    assert estimate.needs_s(500, 10.1) == pytest.approx(0.1)
    assert estimate.needs_s(1000, 10.1) == pytest.approx(0.2)
    assert estimate.needs_s(2000, 10.1) == pytest.approx(0.2)


def test_a_request_much_larger_than_all_before_is_tried() -> None:
    estimate = Estimate()
    estimate.add(1000, 0.2, 10)
    assert estimate.needs_s(2001, 10.1) == 0


def test_a_quarter_of_the_requests_take_less() -> None:
    estimate = Estimate()
    for took_s in (0.8, 0.1, 0.5, 0.2, 0.7, 0.6, 0.4, 0.3):
        estimate.add(1000, took_s, 10)
    assert estimate.needs_s(1000, 10.1) == pytest.approx(0.3)


def test_what_is_long_ago_does_not_count() -> None:
    estimate = Estimate()
    for _ in range(MAX_SAMPLES // 2):
        estimate.add(1000, 9.0, 10)
    estimate.add(1000, 0.1, 10.1 + WINDOW_S)
    assert estimate.needs_s(1000, 10.1 + WINDOW_S) == pytest.approx(0.1)


def test_a_worker_that_was_slow_tries_again_soon() -> None:
    estimate = Estimate()
    for _ in range(2 * MAX_SAMPLES):
        estimate.add(1000, 9.0, 10)
    assert estimate.needs_s(1000, 10 + STALE_S) == 9
    assert estimate.needs_s(1000, 10.01 + STALE_S) == 0
