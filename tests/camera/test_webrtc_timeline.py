"""Joining in the middle of a segment: the past is played fast until it meets the present."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from camera.webrtc.timeline import SPEED, Timeline


def test_a_segment_of_three_seconds_is_caught_up_after_one_more() -> None:
    # Four times as fast: 4 s of pictures in 1 s of wall clock, in which the camera makes the fourth second.
    plan = Timeline(first_us=10_000_000, edge_us=13_000_000, joined_s=100.0)
    assert plan.meet_us == 14_000_000
    first = plan.place(10_000_000)
    assert (first.stamp_us, first.send_at_s) == (13_000_000, 100.0)
    middle = plan.place(12_000_000)
    assert (middle.stamp_us, middle.send_at_s) == (13_500_000, 100.5)
    assert plan.place(14_000_000).stamp_us == 14_000_000
    assert plan.place(14_000_000).send_at_s is None


def test_a_fresh_segment_is_not_held_back() -> None:
    assert Timeline(5, 5, 1.0).place(5).send_at_s is None
    assert Timeline(5, 3, 1.0).place(5).send_at_s is None


@given(st.integers(0, 2**50), st.integers(1, 4_000_000), st.lists(st.integers(5_000, 200_000), max_size=60))
def test_stamps_rise_and_the_wire_keeps_their_pace(first_us: int, age_us: int, steps_us: list[int]) -> None:
    plan = Timeline(first_us, first_us + age_us, 0.0)
    time_us, before = first_us, plan.place(first_us)
    for step_us in steps_us:
        time_us += step_us
        slot = plan.place(time_us)
        assert slot.stamp_us > before.stamp_us
        assert slot.stamp_us - before.stamp_us >= step_us // SPEED
        if slot.send_at_s is not None and before.send_at_s is not None:
            on_wire_us = (slot.send_at_s - before.send_at_s) * 1e6
            assert abs(on_wire_us - (slot.stamp_us - before.stamp_us)) <= 2
        before = slot
