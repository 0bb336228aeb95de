"""Pictures from a live WHEP session."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import av

from analytics.decoding import UnitDecoder, to_bgr
from analytics.stream import StreamFrame, UnitStream
from base.errors import MediaError, VeilError

logger = logging.getLogger(__name__)

Opener = Callable[[], Awaitable[UnitStream]]
_JOIN_S = 5.0


class LiveFrames:
    """FrameStream that receives and decodes on a thread of its own and keeps the newest pictures only.

    Every unit is decoded, because later ones refer to it; decoded pictures wait in a queue of
    ``queue_frames``, the oldest is dropped when the consumer is slower than the camera. Iteration ends when
    the session ends.

    ``num_decoded`` counts all pictures decoded so far.

    Raises:
        VeilError: what the session failed with, on iteration, after the pictures that came before.
    """

    def __init__(self, opener: Opener, *, every: int = 1, queue_frames: int = 4) -> None:
        self._opener = opener
        self._every = every
        self._ready = threading.Condition()
        self._queue: deque[tuple[int, float, av.VideoFrame]] = deque(maxlen=queue_frames)
        self._num_overrun = self._num_damaged = self._num_lost = self.num_decoded = 0
        self._first_s = 0.0
        self._ended = False
        self._failure: VeilError | None = None
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="veilcam-live-frames", daemon=True)
        self._thread.start()

    @classmethod
    def connect(
        cls, url: str, *, token: str | None = None, every: int = 1, queue_frames: int = 4
    ) -> LiveFrames:
        """Frames of the WHEP endpoint at ``url``."""
        from analytics.whep_client import open_whep  # noqa: PLC0415  # aiortc only where it is used

        return cls(lambda: open_whep(url, token=token), every=every, queue_frames=queue_frames)

    @property
    def num_frames(self) -> int | None:
        """None: live."""
        return None

    @property
    def num_dropped(self) -> int:
        """See FrameStream."""
        return self._num_overrun + self._num_damaged + self._num_lost

    def __iter__(self) -> Iterator[StreamFrame]:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._queue or self._ended)
                if not self._queue:
                    break
                index, time_s, picture = self._queue.popleft()
            yield StreamFrame(to_bgr(picture), index, time_s)
        if self._failure:
            raise self._failure

    def close(self) -> None:
        """See FrameStream."""
        with suppress(RuntimeError):  # the loop has already ended
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_JOIN_S)

    def _cancel(self) -> None:
        if self._task:
            self._task.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._task = self._loop.create_task(self._receive())
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
        except VeilError as error:
            self._failure = error
        except Exception as error:  # a failed thread must wake its consumer, whatever failed
            logger.exception("live stream ended")
            self._failure = MediaError(f"live stream ended: {type(error).__name__}")
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            with self._ready:
                self._ended = True
                self._ready.notify_all()

    async def _receive(self) -> None:
        units = await self._opener()
        try:
            decoder = UnitDecoder()
            async for unit in units:
                for time_s, picture in await asyncio.to_thread(decoder.decode, unit.data, unit.pts_us):
                    self._offer(time_s, picture)
                if decoder.num_damaged > self._num_damaged:
                    units.request_key_frame()
                self._num_damaged, self._num_lost = decoder.num_damaged, units.num_dropped
            for time_s, picture in decoder.flush():
                self._offer(time_s, picture)
        finally:
            await units.close()

    def _offer(self, time_s: float, picture: av.VideoFrame) -> None:
        index, self.num_decoded = self.num_decoded, self.num_decoded + 1
        if index == 0:
            self._first_s = time_s
        if index % self._every:
            return
        with self._ready:
            if len(self._queue) == self._queue.maxlen:
                self._num_overrun += 1
            self._queue.append((index, time_s - self._first_s, picture))
            self._ready.notify()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
