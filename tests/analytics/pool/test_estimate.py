from __future__ import annotations

import random

import pytest

from analytics.pool.estimate import Observation, RobustLine, WorkerEstimate


def observed(
    pixels: int, speed: float, fixed_s: float, *, rate: float = 1e6, delay_s: float = 0.01
) -> Observation:
    sent = pixels // 8
    busy_s = fixed_s + pixels / speed
    return Observation(pixels, sent, delay_s + sent / rate + busy_s, 0.0, busy_s)


def test_speed_fixed_cost_link_and_delay_are_told_apart() -> None:
    estimate, chance = WorkerEstimate(), random.Random(1)
    for _ in range(24):
        estimate.add(observed(chance.randrange(10_000, 200_000), 1.5e6, 0.004))
    assert estimate.pixels_per_s == pytest.approx(1.5e6, rel=0.02)
    estimate.add_gap(0.0, 0)
    assert estimate.fixed_s == pytest.approx(0.004, rel=0.1)
    assert estimate.bytes_per_s == pytest.approx(1e6, rel=0.02)
    assert estimate.delay_s == pytest.approx(0.01, rel=0.1)


def test_one_outlier_changes_nothing_and_three_slow_answers_change_the_belief() -> None:
    estimate, chance = WorkerEstimate(), random.Random(2)
    for _ in range(24):
        estimate.add(observed(chance.randrange(10_000, 200_000), 2e6, 0.002))
    before_s = estimate.predicted_s(100_000, 12_500)
    estimate.add(observed(100_000, 0.2e6, 0.02))
    assert estimate.predicted_s(100_000, 12_500) == pytest.approx(before_s, rel=0.1)
    for _ in range(3):
        estimate.add(observed(100_000, 0.5e6, 0.008))
    assert estimate.predicted_s(100_000, 12_500) == pytest.approx(0.01 + 0.0125 + 0.208, rel=0.25)


def test_equal_tiles_say_how_fast_but_not_how_much_of_it_is_fixed() -> None:
    line = RobustLine(0.002, 1e-6)
    for _ in range(24):
        line.add(50_000, 0.104)  # twice what the guess said
    assert line.intercept == pytest.approx(0.004, rel=0.01)
    assert line.slope == pytest.approx(2e-6, rel=0.01)


def test_a_worker_that_claims_more_time_than_passed_is_not_believed() -> None:
    estimate = WorkerEstimate()
    for _ in range(8):
        estimate.add(Observation(100_000, 10_000, 0.05, 0.0, 9.0))
    assert estimate.predicted_s(100_000, 10_000) < 0.06


def test_an_answer_that_never_came_makes_a_worker_look_slow_and_never_faster() -> None:
    estimate = WorkerEstimate()
    for _ in range(12):
        estimate.add(observed(100_000, 2e6, 0.002))
    before_s = estimate.predicted_s(100_000, 12_500)
    estimate.add_lost(100_000, 12_500, 0.01)
    assert estimate.predicted_s(100_000, 12_500) == before_s
    for _ in range(3):
        estimate.add_lost(100_000, 12_500, 1.0)
    assert estimate.predicted_s(100_000, 12_500) > 0.8


def test_our_own_tiles_waiting_for_each_other_are_not_taken_for_a_busy_worker() -> None:
    estimate = WorkerEstimate()
    for _ in range(12):
        estimate.add(observed(100_000, 2e6, 0.002))
    before_s = estimate.predicted_s(100_000, 12_500)
    for _ in range(12):
        estimate.add(Observation(100_000, 12_500, 0.5, 0.4, 0.052, alone=False))
    assert estimate.predicted_s(100_000, 12_500) == pytest.approx(before_s)


def test_patience_is_longer_than_what_is_expected() -> None:
    estimate = WorkerEstimate()
    for _ in range(24):
        estimate.add(observed(100_000, 2e6, 0.002))
    expected_s = estimate.predicted_s(100_000, 12_500)
    assert 1.3 * expected_s < estimate.patience_s(expected_s) < 3 * expected_s


def test_what_lies_between_two_tiles_is_a_cost_of_each_and_no_delay() -> None:
    estimate = WorkerEstimate()
    for _ in range(12):
        estimate.add(observed(100_000, 2e6, 0.002, delay_s=0.015))
        estimate.add(observed(20_000, 2e6, 0.002, delay_s=0.015))
    total_s = estimate.delay_s + estimate.fixed_s
    for _ in range(5):
        estimate.add_gap(0.012 + 5000 / 1e6, 5000)
    assert estimate.fixed_s == pytest.approx(0.014, rel=0.05)
    assert estimate.delay_s == pytest.approx(0.003, rel=0.1)
    assert estimate.delay_s + estimate.fixed_s == pytest.approx(total_s)
