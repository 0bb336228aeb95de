"""The drop policy of the worker's queue, stated in FairQueue."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.worker.queue import FairQueue, QueueFull


def taken(queue: FairQueue[str], now_s: float = 0) -> list[str]:
    items = []
    while (item := queue.take(now_s)[0]) is not None:
        items.append(item)
    return items


def test_cameras_take_turns_and_the_newest_of_each_comes_first() -> None:
    queue: FairQueue[str] = FairQueue(16, 16)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.put(item, item[0], 10, 0)
    assert taken(queue) == ["a3", "b2", "c1", "a2", "b1", "a1"]


def test_a_camera_that_comes_later_does_not_wait_for_a_second_turn_of_another() -> None:
    queue: FairQueue[str] = FairQueue(16, 16)
    for item in ("a1", "a2", "a3"):
        queue.put(item, "a", 10, 0)
    assert queue.take(0)[0] == "a3"
    queue.put("b1", "b", 10, 0)
    assert [queue.take(0)[0] for _ in range(3)] == ["b1", "a2", "a1"]
    queue.put("a4", "a", 10, 0)
    queue.put("b2", "b", 10, 0)
    assert queue.take(0)[0] == "b2"  # a had its turn after b


def test_what_is_late_is_not_handed_out() -> None:
    queue: FairQueue[str] = FairQueue(16, 16)
    queue.put("good", "a", 3, 0)
    queue.put("late", "a", 1, 0)
    assert queue.take(1) == ("good", ["late"])
    assert queue.take(1) == (None, [])


def test_what_cannot_be_done_in_time_is_not_handed_out() -> None:
    queue: FairQueue[str] = FairQueue(16, 16)
    queue.put("good", "a", 5, 0)
    queue.put("hopeless", "a", 3, 0)
    assert queue.take(1, lambda _: 2.5) == ("good", ["hopeless"])


def test_late_items_make_room() -> None:
    queue: FairQueue[str] = FairQueue(2, 2)
    queue.put("late1", "a", 1, 0)
    queue.put("late2", "b", 1, 0)
    assert queue.put("new", "a", 9, 2) == (["late1", "late2"], [])
    assert len(queue) == 1


def test_a_camera_that_floods_loses_its_own_oldest_item() -> None:
    queue: FairQueue[str] = FairQueue(4, 4)
    for item in ("a1", "a2", "a3", "a4"):
        queue.put(item, "a", 10, 0)
    assert queue.put("b1", "b", 10, 0) == ([], ["a1"])
    assert queue.put("b2", "b", 10, 0) == ([], ["a2"])
    with pytest.raises(QueueFull):  # two each: nobody has to give way
        queue.put("b3", "b", 10, 0)
    assert taken(queue) == ["a4", "b2", "a3", "b1"]


def test_one_camera_gets_no_more_than_its_share() -> None:
    queue: FairQueue[str] = FairQueue(16, 2)
    queue.put("a1", "a", 10, 0)
    queue.put("a2", "a", 10, 0)
    with pytest.raises(QueueFull):
        queue.put("a3", "a", 10, 0)
    queue.put("b1", "b", 10, 0)


def test_a_caller_that_goes_away_leaves_nothing() -> None:
    queue: FairQueue[str] = FairQueue(16, 16)
    queue.put("a1", "a", 10, 0)
    assert queue.remove("a1")
    assert not queue.remove("a1")
    assert (len(queue), queue.num_cameras) == (0, 0)


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "take", "remove"]), st.integers(0, 3), st.integers(0, 5)), max_size=60
)


@settings(max_examples=100)
@given(STEPS, st.integers(1, 6), st.integers(1, 6))
def test_every_item_leaves_exactly_once_and_bounds_hold(
    steps: list[tuple[str, int, int]], max_items: int, max_per_camera: int
) -> None:
    queue: FairQueue[tuple[int, int]] = FairQueue(max_items, max_per_camera)
    inside: dict[tuple[int, int], int] = {}
    for now_s, (step, camera, patience_s) in enumerate(steps):
        item = (now_s, camera)
        if step == "put":
            try:
                expired, pushed_out = queue.put(item, str(camera), now_s + patience_s, now_s)
            except QueueFull:
                gone = [other for other, deadline_s in inside.items() if deadline_s <= now_s]
                assert len(inside) - len(gone) >= min(max_items, max_per_camera)
                for other in gone:
                    del inside[other]
            else:
                assert all(inside[other] <= now_s for other in expired)
                for other in (*expired, *pushed_out):
                    del inside[other]
                inside[item] = now_s + patience_s
        elif step == "take":
            found, expired = queue.take(now_s)
            assert all(inside.pop(other) <= now_s for other in expired)
            if found is not None:
                assert inside.pop(found) > now_s
        elif inside:
            other = next(iter(inside))
            assert queue.remove(other)
            del inside[other]
        assert len(queue) == len(inside) <= max_items
        counts = Counter(camera for _, camera in inside)
        assert all(count <= max_per_camera for count in counts.values())
        assert queue.num_cameras == len(counts)
