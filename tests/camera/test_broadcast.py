from __future__ import annotations

import threading
import time
from collections.abc import Callable

from camera.broadcast import Broadcast, QueueLimits, Subscription, WhenFull
from codec.access_unit import AccessUnit
from codec.sealer import SealedUnit


def stream(pattern: str, size: int = 10) -> list[SealedUnit]:
    """``K`` starts a segment, ``p`` continues it."""
    units = []
    segment = -1
    for number, letter in enumerate(pattern):
        segment += letter == "K"
        nal = bytes([0x65 if letter == "K" else 0x41]) + bytes([number]) * (size - 1)
        unit = AccessUnit((nal,), number * 1000, letter == "K")
        is_last = pattern[number + 1 : number + 2] == "K"
        units.append(SealedUnit(unit, letter == "K", segment, is_last))
    return units


def drain(subscription: Subscription) -> list[int]:
    numbers = []
    while (unit := subscription.poll()) is not None:
        numbers.append(unit.unit.pts_us // 1000)
    return numbers


def publish(broadcast: Broadcast, units: list[SealedUnit]) -> None:
    for unit in units:
        broadcast.publish(unit)


def wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.005)
    return condition()


def test_a_subscription_begins_with_the_next_segment() -> None:
    broadcast = Broadcast()
    units = stream("KppKp")
    publish(broadcast, units[:2])
    subscription = broadcast.subscribe("viewer")
    publish(broadcast, units[2:])
    assert drain(subscription) == [3, 4]


def test_replay_begins_with_the_open_segment_s_idr() -> None:
    broadcast = Broadcast()
    units = stream("KppKpp")
    publish(broadcast, units[:5])
    subscription = broadcast.subscribe("viewer", replay=True)
    publish(broadcast, units[5:])
    assert drain(subscription) == [3, 4, 5]


def test_a_slow_reader_skips_to_an_idr_and_never_sees_a_unit_after_a_lost_one() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe("slow", limits=QueueLimits(max_units=3))
    publish(broadcast, stream("KppppKpp"))
    assert drain(subscription) == [5, 6, 7]
    stats = subscription.stats()
    assert (stats.skips, stats.skipped_units, stats.delivered_units) == (1, 5, 3)


def test_the_byte_limit_counts_as_the_unit_limit_does() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe("slow", limits=QueueLimits(max_units=100, max_bytes=25))
    publish(broadcast, stream("KpppK", size=10))
    assert drain(subscription) == [4]


def test_a_unit_larger_than_the_limit_still_reaches_an_empty_queue() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe("small", limits=QueueLimits(max_bytes=5))
    publish(broadcast, stream("K", size=1000))
    assert drain(subscription) == [0]


def test_a_waiting_subscription_holds_the_publisher_back_and_loses_nothing() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe("file", limits=QueueLimits(max_units=2), when_full=WhenFull.WAIT)
    publisher = threading.Thread(target=publish, args=(broadcast, stream("K" + "p" * 49)))
    publisher.start()
    time.sleep(0.05)
    assert publisher.is_alive()
    assert subscription.stats().queued_units == 2
    got = [unit.unit.pts_us // 1000 for unit in (subscription.get(1.0) for _ in range(50)) if unit]
    publisher.join(5)
    assert got == list(range(50))


def test_unsubscribing_frees_a_publisher_that_waits() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe("file", limits=QueueLimits(max_units=1), when_full=WhenFull.WAIT)
    publisher = threading.Thread(target=publish, args=(broadcast, stream("Kpp")))
    publisher.start()
    broadcast.unsubscribe(subscription)
    publisher.join(5)
    assert not publisher.is_alive()
    assert broadcast.num_subscribers == 0


def test_closing_ends_every_iteration_after_what_is_queued() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe("viewer")
    publish(broadcast, stream("Kp"))
    assert not subscription.ended
    broadcast.close()
    assert len(list(subscription)) == 2
    assert broadcast.num_subscribers == 0
    assert broadcast.subscribe("late").ended


def test_on_ready_tells_of_units_and_of_the_end() -> None:
    broadcast = Broadcast()
    calls: list[int] = []
    broadcast.subscribe("viewer", on_ready=lambda: calls.append(1))
    publish(broadcast, stream("Kp"))
    broadcast.close()
    assert len(calls) == 3


def test_one_slow_reader_does_not_hold_others_back() -> None:
    broadcast = Broadcast()
    slow = broadcast.subscribe("slow", limits=QueueLimits(max_units=1))
    fast = broadcast.subscribe("fast")
    publish(broadcast, stream("Kppp"))
    assert drain(fast) == [0, 1, 2, 3]
    assert drain(slow) == []


def test_skipping_on_request_goes_on_with_the_next_start() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe("viewer")
    units = stream("KppKp")
    publish(broadcast, units[:2])
    subscription.skip_to_next_start()
    publish(broadcast, units[2:])
    assert drain(subscription) == [3, 4]
    assert wait_until(lambda: broadcast.idle_s is not None)


def test_a_reader_that_comes_back_goes_on_with_the_newest_segment_that_waits() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe("publisher")
    units = stream("KppKpKpKp")
    publish(broadcast, units[:7])
    subscription.skip_to_newest_start()
    assert drain(subscription) == [5, 6]
    assert subscription.stats().skipped_units == 5
    subscription.skip_to_newest_start()  # nothing waits, and the reader is in the middle of a segment
    publish(broadcast, units[7:])
    assert drain(subscription) == [7, 8]
    publish(broadcast, stream("pp"))
    subscription.skip_to_newest_start()  # what waits begins nowhere
    publish(broadcast, stream("pKp"))
    assert drain(subscription) == [1, 2]
