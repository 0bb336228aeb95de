"""One viewer's video track: sealed units from a broadcast in, encoded packets for aiortc out.

aiortc sends what ``recv`` returns as it is when it is an ``av.Packet``, so the stream is encoded once,
however many viewers there are. The queue behind a track is the broadcast's: bounded, and emptied up to the
next key frame when the viewer is too slow. A viewer can therefore never slow down the camera, nor grow.
Between renditions a track changes where the other one begins a segment, so that every picture decodes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import av
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from camera.broadcast import Broadcast, QueueLimits, Subscription, WhenFull
from camera.webrtc.adapt import Rendition
from camera.webrtc.timeline import Timeline

if TYPE_CHECKING:
    from av.stream import Stream

    from codec.sealer import SealedUnit

logger = logging.getLogger(__name__)

MICROSECOND = Fraction(1, 1_000_000)
VIEWER_QUEUE = QueueLimits(max_units=300, max_bytes=8 * 1024 * 1024)


class LiveRendition(Protocol):
    """One coded form of the protected picture."""

    @property
    def broadcast(self) -> Broadcast:
        """Where its units come from."""

    def request_key_frame(self) -> None:
        """Ask for a new segment soon; who grants it bounds how often."""


@dataclass(frozen=True, slots=True)
class TrackOptions:
    """Limits of one viewer."""

    keep_sealed: bool = False  # leave the sealed layer's SEI in (a recorder that asks for it)
    queue: QueueLimits = VIEWER_QUEUE
    max_replay_us: int = 4_000_000  # an older open segment is not replayed: a new one is asked for
    max_lag_us: int = 1_000_000  # further behind than this: go on with the next key frame


@dataclass(slots=True)
class TrackCounters:
    """What one viewer was sent."""

    units: int = 0
    bytes: int = 0
    skips: int = 0


class PacketTrack(MediaStreamTrack):
    """The protected stream for one viewer. Subscribes at the first ``recv``, that is once connected."""

    kind = "video"

    def __init__(
        self,
        broadcast: Broadcast,
        name: str,
        request_key_frame: Callable[[], None],
        options: TrackOptions | None = None,
        *,
        sub: LiveRendition | None = None,
    ) -> None:
        """Prepare; nothing is subscribed yet.

        Args:
            broadcast: of the main rendition.
            name: for counters and logs.
            request_key_frame: of the main rendition.
            options: limits.
            sub: the smaller rendition; None: there is none.
        """
        super().__init__()
        self.rendition: Rendition = "main"
        self.counters = TrackCounters()
        self._broadcast = self._main_broadcast = broadcast
        self._main_request = request_key_frame
        self._sub = sub
        self._pending: tuple[Rendition, Broadcast, Subscription] | None = None
        self._name = name
        self._request_key_frame = request_key_frame
        self._options = options or TrackOptions()
        self._subscription: Subscription | None = None
        self._ready = asyncio.Event()
        self._wakes_on = asyncio.get_running_loop()  # _loop is the event emitter's
        self._backlog: deque[SealedUnit] = deque()
        self._timeline: Timeline | None = None
        self._last_us: int | None = None
        self._interval_us = 33_333
        self._known_skips = 0

    async def recv(self) -> av.Packet[Stream]:
        """The next access unit, Annex-B, stamped in microseconds.

        Raises:
            MediaStreamError: the track was stopped or the camera's stream has ended.
        """
        if self.readyState != "live":
            raise MediaStreamError
        if self._subscription is None:
            self._subscription = self._join()
        unit = await self._next()
        stamp_us = await self._wait_for_slot(unit.unit.pts_us)
        shown = unit.unit if self._options.keep_sealed else unit.unit.without_sealed()
        packet = av.Packet(shown.annexb())
        packet.pts = packet.dts = stamp_us
        packet.time_base = MICROSECOND
        self.counters.units += 1
        self.counters.bytes += packet.size
        return packet

    def stop(self) -> None:
        """End the track and give its queue back; harmless when repeated."""
        super().stop()
        self._drop_pending()
        if self._subscription is not None:
            self._broadcast.unsubscribe(self._subscription)
        self._backlog.clear()

    def request_key_frame(self) -> None:
        """Ask for a new segment of the rendition that is being sent."""
        self._request_key_frame()

    def switch(self, rendition: Rendition) -> None:
        """Go on with another rendition from its next segment on.

        Without one, or before the first ``recv`` of the main one, nothing happens.
        """
        wanted = self._pending[0] if self._pending is not None else self.rendition
        if rendition == wanted or self._sub is None or self._subscription is None:
            return
        self._drop_pending()
        if rendition == self.rendition:
            return
        broadcast = self._sub.broadcast if rendition == "sub" else self._main_broadcast
        subscription = broadcast.subscribe(
            self._name, limits=self._options.queue, when_full=WhenFull.SKIP, on_ready=self._wake
        )
        self._pending = rendition, broadcast, subscription
        if rendition == "sub":
            self._sub.request_key_frame()

    def _drop_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending[1].unsubscribe(pending[2])

    def _arrived_at_pending(self) -> SealedUnit | None:
        """The first unit of the rendition to go on with; then that one is sent."""
        if self._pending is None:
            return None
        rendition, broadcast, subscription = self._pending
        unit = subscription.poll()
        if unit is None:
            if subscription.ended:
                self._drop_pending()
            return None
        if self._subscription is not None:
            self._broadcast.unsubscribe(self._subscription)
        self._pending, self._broadcast, self._subscription = None, broadcast, subscription
        self.rendition = rendition
        is_sub = rendition == "sub" and self._sub is not None
        self._request_key_frame = self._sub.request_key_frame if is_sub and self._sub else self._main_request
        self._backlog.clear()
        self._timeline, self._known_skips = None, 0
        return unit

    def _join(self) -> Subscription:
        """Subscribe with the open segment's units so far; ask for a new segment when they are of no use."""
        subscription = self._broadcast.subscribe(
            self._name,
            limits=self._options.queue,
            when_full=WhenFull.SKIP,
            replay=True,
            on_ready=self._wake,
        )
        while (unit := subscription.poll()) is not None and len(
            self._backlog
        ) < self._options.queue.max_units:
            self._backlog.append(unit)
        if not self._backlog:
            self._request_key_frame()
            return subscription
        first_us, edge_us = self._backlog[0].unit.pts_us, self._backlog[-1].unit.pts_us
        if edge_us - first_us > self._options.max_replay_us:
            self._backlog.clear()
            subscription.skip_to_next_start()
            self._request_key_frame()
        else:
            self._timeline = Timeline(first_us, edge_us, time.monotonic())
        return subscription

    def _wake(self) -> None:
        """Runs on the pipeline's thread, possibly after the event loop has closed."""
        try:
            self._wakes_on.call_soon_threadsafe(self._ready.set)
        except RuntimeError:
            logger.debug("viewer %s: event loop is gone", self._name)

    async def _next(self) -> SealedUnit:
        while True:
            self._ready.clear()
            if (unit := self._arrived_at_pending()) is not None:
                return unit
            if self._backlog:
                return self._backlog.popleft()
            subscription = self._subscription
            if subscription is None:
                raise MediaStreamError
            self._drop_if_late(subscription)
            if (unit := subscription.poll()) is not None:
                return unit
            if subscription.ended:
                self.stop()
                raise MediaStreamError
            await self._ready.wait()

    def _drop_if_late(self, subscription: Subscription) -> None:
        """Skip ahead when the queue holds more than ``max_lag_us``; ask for a key frame after any skip."""
        stats = subscription.stats()
        catching_up = self._timeline is not None
        if not catching_up and stats.queued_units * self._interval_us > self._options.max_lag_us:
            subscription.skip_to_next_start()
            self._note_skip()
        if stats.skips != self._known_skips:
            self._known_skips = stats.skips
            self._note_skip()

    def _note_skip(self) -> None:
        self.counters.skips += 1
        self._request_key_frame()

    async def _wait_for_slot(self, time_us: int) -> int:
        """Hold the unit until its turn and return its stamp; keeps stamps strictly increasing."""
        stamp_us = time_us
        if self._timeline is not None:
            slot = self._timeline.place(time_us)
            stamp_us = slot.stamp_us
            if slot.send_at_s is None:
                self._timeline = None
            else:
                await asyncio.sleep(max(0.0, slot.send_at_s - time.monotonic()))
        elif self._last_us is not None and 0 < time_us - self._last_us < 1_000_000:
            self._interval_us = (7 * self._interval_us + time_us - self._last_us) // 8
        if self._last_us is not None and stamp_us <= self._last_us:
            stamp_us = self._last_us + 1
        self._last_us = stamp_us
        return stamp_us
