"""Bounded queues between the pipeline's stages."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from camera.sources.captured import Captured

T = TypeVar("T")


class StageQueue(Generic[T]):
    """One writer, one reader; the writer waits while it is full."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._aborted = False

    def put(self, item: T) -> bool:
        """Append an item when there is room; False when the reader is gone."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < self._max_items or self._aborted)
            return self._append(item)

    def end(self) -> None:
        """No more items; the reader takes what is queued."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def abort(self) -> None:
        """The reader is gone: forget everything, block nobody."""
        with self._changed:
            self._aborted = True
            self._items.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        """Items until the end."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._ended or self._aborted)
                if not self._items:
                    return
                item = self._items.popleft()
                self._changed.notify_all()
            yield item

    def _append(self, item: T) -> bool:
        if not self._aborted:
            self._items.append(item)
            self._changed.notify_all()
        return not self._aborted


class CameraQueue(StageQueue[Captured]):
    """For a source that cannot wait: when full, the oldest waiting *picture* is dropped.

    Its source packets move to the next picture: the sealed layer keeps everything that the camera coded.
    """

    def __init__(self, max_items: int) -> None:
        super().__init__(max_items)
        self.num_dropped = 0

    def put(self, item: Captured) -> bool:
        """Append a picture at once; False when the reader is gone."""
        with self._changed:
            while len(self._items) >= self._max_items:
                oldest = self._items.popleft()
                self.num_dropped += 1
                if self._items:
                    self._items[0] = merge(oldest, self._items[0])
                else:
                    item = merge(oldest, item)
            return self._append(item)


def merge(dropped: Captured, following: Captured) -> Captured:
    """``following`` with the packets of both.

    Where both could start a segment the later place wins, unless the earlier follows a gap.
    """
    packets = dropped.packets + following.packets
    if following.boundary is not None and not dropped.discontinuity:
        return replace(following, packets=packets, boundary=len(dropped.packets) + following.boundary)
    if dropped.boundary is None:
        return replace(following, packets=packets)
    return replace(
        following,
        packets=packets,
        boundary=dropped.boundary,
        source_key=dropped.source_key,
        discontinuity=dropped.discontinuity or following.discontinuity,
    )
