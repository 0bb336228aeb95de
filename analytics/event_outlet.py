"""Events to the outside without ever holding up who makes them: one thread, one bounded queue per target.

A target that is away is tried again forever, after 1 s, 2 s ... 60 s, and gets the event that failed again
(at least once). Meanwhile its queue takes 1000 events and then drops the oldest, counted and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from analytics.events import Event
from base.errors import PeerError

logger = logging.getLogger(__name__)

QUEUE_EVENTS = 1000
FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 60.0
DRAIN_S = 5.0
IDLE_S = 15.0


class EventTarget(Protocol):
    """Where events go. Used by one task; opened again after an error."""

    @property
    def name(self) -> str:
        """For logs and counters; without credentials."""

    async def open(self) -> None:
        """Connect.

        Raises:
            PeerError: not now.
        """

    async def send(self, event: Event) -> None:
        """Deliver one event.

        Raises:
            PeerError: not now; the event is kept.
        """

    async def idle(self) -> None:
        """Called after every 15 s without an event, to notice that the other side has gone.

        Raises:
            PeerError: it has.
        """

    async def close(self) -> None:
        """Give everything back; after errors too, and when never opened. Raises nothing."""


@dataclass(frozen=True, slots=True)
class TargetStats:
    """Counters of one target."""

    name: str
    connected: bool
    sent: int
    dropped: int
    error: str  # "" while all is well


class EventOutlet:
    """Sends every event to every target. ``offer`` is safe from any thread and never waits."""

    def __init__(self, targets: Sequence[EventTarget], *, queue_events: int = QUEUE_EVENTS) -> None:
        self._lanes = [_Lane(target, queue_events) for target in targets]
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="veilcam-events", daemon=True)

    def start(self) -> None:
        """Start the thread, unless there is no target; connecting happens there."""
        if self._lanes and self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._tasks = [self._loop.create_task(lane.run()) for lane in self._lanes]
            self._thread.start()

    def offer(self, event: Event) -> None:
        """Queue an event; nothing happens before ``start`` and after ``close``."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._put, event)
        except RuntimeError:
            logger.debug("events: the outlet is closed")

    def stats(self) -> tuple[TargetStats, ...]:
        """One entry per target."""
        return tuple(lane.stats() for lane in self._lanes)

    def close(self, timeout_s: float = DRAIN_S) -> None:
        """Deliver what is queued for at most ``timeout_s``, then end the thread. Harmless when repeated."""
        if self._loop is None:
            return
        with contextlib.suppress(RuntimeError):  # closed before
            self._loop.call_soon_threadsafe(self._end, timeout_s)
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        assert self._loop is not None  # noqa: S101  # made by start; for the type checker
        try:
            self._loop.run_until_complete(asyncio.wait(self._tasks))
        finally:
            self._loop.close()

    def _put(self, event: Event) -> None:
        for lane in self._lanes:
            lane.put(event)

    def _end(self, timeout_s: float) -> None:
        for lane in self._lanes:
            lane.finish()
        asyncio.get_running_loop().call_later(timeout_s, self._cancel)

    def _cancel(self) -> None:
        """End what is not at its end by itself; again and again, as a time-out can swallow a cancellation."""
        for task in self._tasks:
            task.cancel()
        asyncio.get_running_loop().call_later(0.2, self._cancel)


class _Lane:
    """One target's queue and the task that empties it."""

    def __init__(self, target: EventTarget, queue_events: int) -> None:
        self.name = target.name
        self._target = target
        self._max_events = queue_events
        self._queue: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._finishing = asyncio.Event()
        self._connected = False
        self._error = ""
        self._sent = self._dropped = 0

    def put(self, event: Event) -> None:
        if self._finishing.is_set():
            return
        if len(self._queue) >= self._max_events:
            self._queue.popleft()
            self._dropped += 1
            if self._dropped == 1:
                logger.warning("events: %s is too slow or away, the oldest events are dropped", self.name)
        self._queue.append(event)
        self._changed.set()

    def finish(self) -> None:
        self._finishing.set()
        self._changed.set()

    def stats(self) -> TargetStats:
        return TargetStats(self.name, self._connected, self._sent, self._dropped, self._error)

    async def run(self) -> None:
        delay_s = FIRST_DELAY_S
        while not self._finishing.is_set() or self._queue:
            sent = self._sent
            try:
                await self._deliver()
            except PeerError as error:
                self._note(error)
            finally:
                self._connected = False
                await self._target.close()
            if self._error:
                delay_s = FIRST_DELAY_S if self._sent > sent else min(2 * delay_s, LONGEST_DELAY_S)
                await self._pause(delay_s * random.uniform(0.5, 1.0))

    async def _deliver(self) -> None:
        """Connect and send until told to finish."""
        await self._target.open()
        if self._error:
            logger.warning("events: %s works again", self.name)
        self._connected, self._error = True, ""
        while True:
            while self._queue:
                await self._target.send(self._queue[0])
                self._queue.popleft()
                self._sent += 1
            if self._finishing.is_set():
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(IDLE_S):
                    await self._changed.wait()
            except TimeoutError:
                await self._target.idle()

    async def _pause(self, seconds: float) -> None:
        """Wait before the next attempt; the end of everything ends it early when nothing is queued."""
        wait = asyncio.sleep(seconds) if self._finishing.is_set() else self._finishing.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wait

    def _note(self, error: PeerError) -> None:
        if not self._error:
            logger.warning("events: %s", error)
        self._error = str(error)
