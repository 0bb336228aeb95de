"""How long a request will take at least, from what others took just now."""

from __future__ import annotations

from collections import deque

WINDOW_S = 5.0
MAX_SAMPLES = 64


class Estimate:
    """A cautious lower bound: nothing is called hopeless that could be in time.

    A request of c pixels takes at least min(1, c / C) of what one of C pixels took; of the requests of the
    last WINDOW_S that were at least half as large the most hopeful counts. Old samples do not: a machine
    that was slow for a while gets its chance again.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, float]] = deque(maxlen=MAX_SAMPLES)

    def add(self, pixels: int, took_s: float, now_s: float) -> None:
        """A request of ``pixels`` took ``took_s`` and ended at ``now_s``."""
        self._samples.append((now_s, pixels, took_s))

    def at_least_s(self, pixels: int, now_s: float) -> float:
        """The least that a request of ``pixels`` will take; 0 if nothing is known."""
        bounds = [
            took_s * min(1.0, pixels / size)
            for when_s, size, took_s in self._samples
            if now_s - when_s <= WINDOW_S and 2 * size >= pixels > 0
        ]
        return min(bounds, default=0.0)
