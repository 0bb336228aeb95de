"""Makes a file play at the speed it was recorded."""

from __future__ import annotations

import threading
import time

# Behind by more than this (a suspended machine, a stalled sink): go on from here, do not race to catch up.
MAX_LAG_S = 1.0


class Pacer:
    """Waits until a picture is due. The first picture is due at once."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._start_s: float | None = None
        self._first_us = 0

    def wait_for(self, time_us: int) -> None:
        """Sleep until ``time_us`` is due, or until stopped."""
        now_s = time.monotonic()
        if self._start_s is None:
            self._start_s, self._first_us = now_s, time_us
            return
        ahead_s = self._start_s + (time_us - self._first_us) / 1e6 - now_s
        if ahead_s > 0:
            self._stop.wait(ahead_s)
        elif ahead_s < -MAX_LAG_S:
            self._start_s -= ahead_s
