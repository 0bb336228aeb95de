"""When a worker is asked, and when it is left alone.

closed: it gets tiles. open: it gets nothing until a time. half-open: that time is over, and a probe decides.
A worker that cannot be reached is left alone for half a second, then twice as long each time, up to 30 s. One
that is late twice in a row likewise. One that lies is left alone for 10 s, 20 s ... 10 min, and its lies are
forgotten only after as many good answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

BreakerState = Literal["closed", "open", "half-open"]

FIRST_HOLD_S, LONGEST_HOLD_S = 0.5, 30.0
FIRST_LIE_HOLD_S, LONGEST_LIE_HOLD_S = 10.0, 600.0
LATE_IN_A_ROW = 2
GOOD_TO_FORGET_A_LIE = 200


class Breaker:
    """The state of one worker. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float], *, begins_open: bool = True) -> None:
        self._clock = clock
        self._until_s = clock() if begins_open else 0.0
        self._is_open = begins_open
        self._late = self._failures = self._lies = self._good = 0

    @property
    def state(self) -> BreakerState:
        """At this moment."""
        if not self._is_open:
            return "closed"
        return "half-open" if self._clock() >= self._until_s else "open"

    @property
    def num_lies(self) -> int:
        """Answers that could not be true, less those forgiven."""
        return self._lies

    @property
    def wait_s(self) -> float:
        """Seconds until a probe is worth it; 0 when closed or half-open."""
        return max(0.0, self._until_s - self._clock()) if self._is_open else 0.0

    def success(self) -> None:
        """A good answer in time. One that was on its way when the worker was left alone changes nothing."""
        if self.state == "open":
            return
        self._is_open = False
        self._late = self._failures = 0
        self._good += 1
        if self._good >= GOOD_TO_FORGET_A_LIE and self._lies:
            self._lies -= 1
            self._good = 0

    def late(self) -> None:
        """No answer in time."""
        self._late += 1
        if self._late >= LATE_IN_A_ROW or self._is_open:
            self.failure()

    def failure(self) -> None:
        """It cannot be reached, or refuses."""
        self._hold(min(FIRST_HOLD_S * 2**self._failures, LONGEST_HOLD_S))
        self._failures = min(self._failures + 1, 16)

    def lie(self) -> None:
        """An answer that cannot be true."""
        self._good = 0
        self._hold(min(FIRST_LIE_HOLD_S * 2**self._lies, LONGEST_LIE_HOLD_S))
        self._lies = min(self._lies + 1, 16)

    def _hold(self, seconds: float) -> None:
        self._until_s = max(self._clock() + seconds, self._until_s if self._is_open else 0.0)
        self._is_open = True
