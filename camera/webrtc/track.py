"""One viewer's video track: sealed units from the broadcast in, encoded packets for aiortc out.

aiortc sends what ``recv`` returns as it is when it is an ``av.Packet``, so the stream is encoded once,
however many viewers there are. The queue behind a track is the broadcast's: bounded, and emptied up to the
next key frame when the viewer is too slow. A viewer can therefore never slow down the camera, nor grow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import av
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from camera.broadcast import Broadcast, QueueLimits, Subscription, WhenFull
from camera.webrtc.timeline import Timeline

if TYPE_CHECKING:
    from av.stream import Stream

    from codec.sealer import SealedUnit

logger = logging.getLogger(__name__)

MICROSECOND = Fraction(1, 1_000_000)
VIEWER_QUEUE = QueueLimits(max_units=300, max_bytes=8 * 1024 * 1024)


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
    ) -> None:
        super().__init__()
        self.counters = TrackCounters()
        self._broadcast = broadcast
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
        unit = await self._next(self._subscription)
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
        if self._subscription is not None:
            self._broadcast.unsubscribe(self._subscription)
        self._backlog.clear()

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

    async def _next(self, subscription: Subscription) -> SealedUnit:
        if self._backlog:
            return self._backlog.popleft()
        self._drop_if_late(subscription)
        while True:
            self._ready.clear()
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
