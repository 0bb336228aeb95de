"""Waiting work: bounded, with deadlines, and fair between cameras. No clock, no threads."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_REMEMBERED = 1024
"""Cameras whose last turn is known; the others count as never served."""


class QueueFull(Exception):  # noqa: N818  # an answer, not a fault
    """There is no room for this item, and nobody whose item could go instead."""


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    item: T
    deadline_s: float


class FairQueue(Generic[T]):
    """The camera that has waited longest for its turn is next; within a camera the newest item comes first.

    Where nothing waits long that makes no difference. Under too much work, first come first served would do
    everything just before its deadline, or just after; the newest has all of its time left.

    Drop policy, in this order:

    1. what is past its deadline, or cannot be done before it, is never handed out;
    2. a camera that has ``max_per_camera`` items waiting gets no more;
    3. in a full queue the oldest item of the camera with the most items goes, if the newcomer's camera has
       at least two fewer; otherwise the newcomer is refused.

    So one camera that sends too much loses its own work, not that of the others. Times are seconds of any
    one clock.
    """

    def __init__(self, max_items: int, max_per_camera: int) -> None:
        self._max_items = max_items
        self._max_per_camera = max_per_camera
        self._waiting: OrderedDict[Hashable, deque[_Entry[T]]] = OrderedDict()
        self._num_items = 0
        self._turns: OrderedDict[Hashable, int] = OrderedDict()  # when each camera had its last turn
        self._num_turns = 0

    def __len__(self) -> int:
        return self._num_items

    @property
    def num_cameras(self) -> int:
        """Cameras with work that waits."""
        return len(self._waiting)

    def put(self, item: T, camera: Hashable, deadline_s: float, now_s: float) -> tuple[list[T], list[T]]:
        """Add an item; what was dropped for it: (past their deadline, pushed out).

        Raises:
            QueueFull: see the drop policy.
        """
        expired: list[T] = []
        own = len(self._waiting.get(camera, ()))
        if self._num_items >= self._max_items or own >= self._max_per_camera:
            expired = self._purge(now_s)
            own = len(self._waiting.get(camera, ()))
        pushed_out: list[T] = []
        if own >= self._max_per_camera:
            raise QueueFull
        if self._num_items >= self._max_items:
            longest = max(self._waiting, key=lambda name: len(self._waiting[name]))
            if len(self._waiting[longest]) < own + 2:
                raise QueueFull
            pushed_out.append(self._pop(longest))
        self._waiting.setdefault(camera, deque()).append(_Entry(item, deadline_s))
        self._num_items += 1
        return expired, pushed_out

    def take(self, now_s: float, needs_s: Callable[[T], float] | None = None) -> tuple[T | None, list[T]]:
        """The next item, if there is one in time, and those that were not.

        Args:
            now_s: the time.
            needs_s: how long an item takes at least; None: no time at all.
        """
        expired: list[T] = []
        while self._waiting:
            camera = min(self._waiting, key=lambda name: self._turns.get(name, -1))
            deadline_s = self._waiting[camera][-1].deadline_s
            item = self._pop(camera, newest=True)
            if deadline_s > now_s + (needs_s(item) if needs_s is not None else 0.0):
                self._note_turn(camera)
                return item, expired
            expired.append(item)
        return None, expired

    def remove(self, item: T) -> bool:
        """Take back an item whose caller has gone; False if it is not waiting."""
        for camera, entries in self._waiting.items():
            for index, entry in enumerate(entries):
                if entry.item is item:
                    del entries[index]
                    self._num_items -= 1
                    if not entries:
                        del self._waiting[camera]
                    return True
        return False

    def clear(self) -> list[T]:
        """Everything that waits; the queue is empty then."""
        items = [entry.item for entries in self._waiting.values() for entry in entries]
        self._waiting.clear()
        self._num_items = 0
        return items

    def _note_turn(self, camera: Hashable) -> None:
        self._num_turns += 1
        self._turns[camera] = self._num_turns
        self._turns.move_to_end(camera)
        while len(self._turns) > MAX_REMEMBERED:
            self._turns.popitem(last=False)

    def _pop(self, camera: Hashable, *, newest: bool = False) -> T:
        entries = self._waiting[camera]
        item = (entries.pop() if newest else entries.popleft()).item
        self._num_items -= 1
        if not entries:
            del self._waiting[camera]
        return item

    def _purge(self, now_s: float) -> list[T]:
        expired = []
        for camera, entries in list(self._waiting.items()):
            expired += [entry.item for entry in entries if entry.deadline_s <= now_s]
            kept = deque(entry for entry in entries if entry.deadline_s > now_s)
            self._num_items -= len(entries) - len(kept)
            if kept:
                self._waiting[camera] = kept
            else:
                del self._waiting[camera]
        return expired
