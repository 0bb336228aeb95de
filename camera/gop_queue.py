"""A subscription whose segments come with all SEI in the key frame, one segment later (``codec.carrier``).

A segment is held until it is whole, then its units go out with the distances they were captured at. Meanwhile
the next one waits in the subscription's own bounded queue.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from camera.broadcast import Subscription
from codec.carrier import gather

if TYPE_CHECKING:
    from codec.sealer import SealedUnit


class GopQueue:
    """Read from one thread."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._held: list[SealedUnit] = []
        self._ready: deque[tuple[SealedUnit, float]] = deque()  # with the moment each is due

    def get(self, timeout_s: float) -> SealedUnit | None:
        """The next unit when it is due; None when ``timeout_s`` seconds bring none."""
        deadline_s = time.monotonic() + timeout_s
        while not self._ready:
            unit = self._subscription.get(max(0.0, deadline_s - time.monotonic()))
            if unit is None:
                return None
            self._hold(unit)
        unit, due_s = self._ready[0]
        wait_s = due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(min(wait_s, max(0.0, deadline_s - time.monotonic())))
            if time.monotonic() < due_s:
                return None
        self._ready.popleft()
        return unit

    def skip_to_next_start(self) -> None:
        """Forget what waits and go on with the next segment."""
        self._held.clear()
        self._ready.clear()
        self._subscription.skip_to_next_start()

    def skip_to_newest_start(self) -> None:
        """Forget what waits before the newest segment."""
        self._held.clear()
        self._ready.clear()
        self._subscription.skip_to_newest_start()

    def _hold(self, unit: SealedUnit) -> None:
        if unit.starts_segment:
            self._held = []  # units of a segment that lost its end
        elif not self._held:
            return
        self._held.append(unit)
        if not unit.is_last:
            return
        held, self._held = self._held, []
        now_s, first_us = time.monotonic(), held[0].unit.pts_us
        gathered = gather([one.unit for one in held])
        self._ready.extend(
            (replace(one, unit=bare), now_s + (one.unit.pts_us - first_us) / 1e6)
            for one, bare in zip(held, gathered, strict=True)
        )
