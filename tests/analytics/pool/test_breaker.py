from __future__ import annotations

import pytest

from analytics.pool.breaker import GOOD_TO_FORGET_A_LIE, Breaker


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def closed(clock: Clock) -> Breaker:
    breaker = Breaker(clock)
    breaker.success()
    return breaker


def test_a_new_worker_is_tried_before_it_is_used(clock: Clock) -> None:
    breaker = Breaker(clock)
    assert str(breaker.state) == "half-open"
    breaker.success()
    assert str(breaker.state) == "closed"


def test_a_failure_opens_at_once_and_each_further_one_for_twice_as_long(clock: Clock) -> None:
    breaker = closed(clock)
    waits = []
    for _ in range(9):
        breaker.failure()
        assert str(breaker.state) == "open"
        waits.append(breaker.wait_s)
        clock.now_s += breaker.wait_s
        assert str(breaker.state) == "half-open"
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    breaker.success()
    breaker.failure()
    assert breaker.wait_s == 0.5


def test_one_late_answer_is_forgiven_and_two_in_a_row_are_not(clock: Clock) -> None:
    breaker = closed(clock)
    breaker.late()
    breaker.success()
    breaker.late()
    assert str(breaker.state) == "closed"
    breaker.late()
    assert str(breaker.state) == "open"


def test_a_lie_costs_more_than_a_failure_and_is_remembered(clock: Clock) -> None:
    breaker = closed(clock)
    breaker.lie()
    assert breaker.wait_s == 10
    clock.now_s += 10
    breaker.success()
    breaker.lie()
    assert breaker.wait_s == 20
    clock.now_s += 20
    for _ in range(2 * GOOD_TO_FORGET_A_LIE):
        breaker.success()
    assert breaker.num_lies == 0


def test_an_answer_that_was_on_its_way_does_not_end_a_hold(clock: Clock) -> None:
    breaker = closed(clock)
    breaker.lie()
    breaker.success()
    assert str(breaker.state) == "open"
    clock.now_s += 10
    breaker.success()
    assert str(breaker.state) == "closed"


def test_a_failure_during_a_lies_hold_does_not_shorten_it(clock: Clock) -> None:
    breaker = closed(clock)
    breaker.lie()
    breaker.failure()
    assert breaker.wait_s == 10
