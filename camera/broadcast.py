"""Bounded fan-out of sealed units: one pipeline writes, any number of sinks read at their own pace.

Every subscription has its own queue, bounded in units and in bytes, and says what happens when its
reader is too slow:

    WhenFull.WAIT   the pipeline waits (files: nothing may be lost)
    WhenFull.SKIP   the queue is emptied and the reader goes on with the next segment start (live);
                    it never sees a unit that follows a lost one without an IDR in between

A subscription starts at a segment start: the next one, or with ``replay`` the open segment from its IDR.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codec.sealer import SealedUnit


class WhenFull(enum.Enum):
    """What happens to a unit that does not fit into a subscription's queue."""

    WAIT = "wait"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bounds of one subscription; a single unit always fits into an empty queue."""

    max_units: int = 256
    max_bytes: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """Counters of one subscription at one moment."""

    name: str
    queued_units: int
    queued_bytes: int
    delivered_units: int
    skipped_units: int
    skips: int


def unit_bytes(unit: SealedUnit) -> int:
    """Size of a unit on the wire without start codes: the sum of its NAL units."""
    return sum(len(nal) for nal in unit.unit.nals)


class Subscription:
    """One reader's queue. Read from one thread; ``on_ready`` runs on the pipeline's thread."""

    def __init__(
        self, name: str, limits: QueueLimits, when_full: WhenFull, on_ready: Callable[[], None] | None
    ) -> None:
        self.name = name
        self._limits = limits
        self._when_full = when_full
        self._on_ready = on_ready
        self._changed = threading.Condition()
        self._queue: deque[tuple[SealedUnit, int]] = deque()
        self._bytes = 0
        self._needs_start = True
        self._closed = False
        self._delivered = self._skipped = self._skips = 0

    def poll(self) -> SealedUnit | None:
        """The next unit, or None when there is none at this moment."""
        return self.get(0.0)

    def get(self, timeout_s: float | None = None) -> SealedUnit | None:
        """The next unit; None after ``timeout_s`` seconds or when the stream has ended (see ``ended``)."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed, timeout_s)
            if not self._queue:
                return None
            unit, size = self._queue.popleft()
            self._bytes -= size
            self._delivered += 1
            self._changed.notify_all()
            return unit

    def __iter__(self) -> Iterator[SealedUnit]:
        """Units until the stream ends."""
        while (unit := self.get()) is not None:
            yield unit

    @property
    def ended(self) -> bool:
        """True when the subscription is closed and everything queued was read."""
        with self._changed:
            return self._closed and not self._queue

    def stats(self) -> SubscriptionStats:
        """Counters at this moment."""
        with self._changed:
            return SubscriptionStats(
                self.name, len(self._queue), self._bytes, self._delivered, self._skipped, self._skips
            )

    def skip_to_next_start(self) -> None:
        """Forget what is queued and go on with the next segment start (a viewer that fell behind)."""
        with self._changed:
            self._forget()
            self._changed.notify_all()

    def skip_to_newest_start(self) -> None:
        """Forget what is queued before the newest segment start; all of it, if there is none."""
        with self._changed:
            starts = [place for place, (unit, _) in enumerate(self._queue) if unit.starts_segment]
            if not starts:
                self._forget()
            for _ in range(starts[-1] if starts else 0):
                _, size = self._queue.popleft()
                self._bytes -= size
                self._skipped += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Take no more units; what is queued can still be read."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._tell()

    def _offer(self, unit: SealedUnit, size: int) -> None:
        with self._changed:
            if self._when_full is WhenFull.WAIT:
                self._changed.wait_for(lambda: self._closed or self._fits(size))
            if self._closed:
                return
            if not self._fits(size):
                self._forget()
                self._skips += 1
            if self._needs_start and not unit.starts_segment:
                self._skipped += 1
                return
            self._needs_start = False
            self._queue.append((unit, size))
            self._bytes += size
            self._changed.notify_all()
        self._tell()

    def _fits(self, size: int) -> bool:
        within = len(self._queue) < self._limits.max_units and self._bytes + size <= self._limits.max_bytes
        return not self._queue or within

    def _has_room_for(self, units: list[tuple[SealedUnit, int]]) -> bool:
        total = sum(size for _, size in units)
        return len(units) <= self._limits.max_units and total <= self._limits.max_bytes

    def _forget(self) -> None:
        self._skipped += len(self._queue)
        self._queue.clear()
        self._bytes = 0
        self._needs_start = True

    def _tell(self) -> None:
        if self._on_ready is not None:
            self._on_ready()


class Broadcast:
    """Hands each sealed unit to every subscription. Published to by one thread, subscribed to by any."""

    def __init__(self, *, max_replay_bytes: int = 32 * 1024 * 1024) -> None:
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []
        self._open_segment: list[tuple[SealedUnit, int]] = []
        self._open_bytes = 0
        self._max_replay_bytes = max_replay_bytes
        self._closed = False
        self._last_unit_s: float | None = None
        self._segment_start_s: float | None = None

    def subscribe(
        self,
        name: str,
        *,
        limits: QueueLimits | None = None,
        when_full: WhenFull = WhenFull.SKIP,
        replay: bool = False,
        on_ready: Callable[[], None] | None = None,
    ) -> Subscription:
        """Open a queue.

        Args:
            name: for counters and logs.
            limits: bounds of the queue.
            when_full: what to do when the reader is too slow.
            replay: begin with the open segment's units so far (a fast first picture), not the next segment.
            on_ready: called on the publishing thread when a unit was queued or the stream ended; must not
                block. An asyncio reader passes ``lambda: loop.call_soon_threadsafe(event.set)`` and polls.
        """
        subscription = Subscription(name, limits or QueueLimits(), when_full, on_ready)
        with self._lock:
            if replay and subscription._has_room_for(self._open_segment):
                for unit, size in self._open_segment:
                    subscription._offer(unit, size)
            if self._closed:
                subscription.close()
            else:
                self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Close a subscription and forget it; harmless when repeated."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
        subscription.close()

    @property
    def num_subscribers(self) -> int:
        """Open subscriptions."""
        with self._lock:
            return len(self._subscriptions)

    @property
    def idle_s(self) -> float | None:
        """Seconds since the last unit; None before the first."""
        return None if self._last_unit_s is None else time.monotonic() - self._last_unit_s

    @property
    def segment_age_s(self) -> float | None:
        """Seconds since the open segment began; None before the first."""
        return None if self._segment_start_s is None else time.monotonic() - self._segment_start_s

    def publish(self, unit: SealedUnit) -> None:
        """Queue a unit everywhere; waits only for subscriptions that asked for it."""
        size = unit_bytes(unit)
        with self._lock:
            self._last_unit_s = time.monotonic()
            self._remember(unit, size)
            readers = tuple(self._subscriptions)
        for reader in readers:
            reader._offer(unit, size)

    def close(self) -> None:
        """End the stream for every subscription."""
        with self._lock:
            self._closed = True
            readers, self._subscriptions = tuple(self._subscriptions), []
            self._open_segment = []
        for reader in readers:
            reader.close()

    def _remember(self, unit: SealedUnit, size: int) -> None:
        if unit.starts_segment:
            self._segment_start_s = self._last_unit_s
            self._open_segment, self._open_bytes = [], 0
        elif not self._open_segment:
            return
        if self._open_bytes + size > self._max_replay_bytes:
            self._open_segment, self._open_bytes = [], 0
            return
        self._open_segment.append((unit, size))
        self._open_bytes += size
