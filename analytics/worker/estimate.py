"""How long a request will take, from what others took just now."""

from __future__ import annotations

from collections import deque

WINDOW_S = 2.0
STALE_S = 0.5
MAX_SAMPLES = 64
QUANTILE = 0.25


class Estimate:
    """On the hopeful side: a quarter of the requests take less.

    A request of c pixels takes min(1, c / C) of what one of C pixels took; those of the last WINDOW_S that
    were at least half as large count. When nothing has been done for STALE_S nothing is known any more, so
    a worker that was slow for a while tries again.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, float]] = deque(maxlen=MAX_SAMPLES)

    def add(self, pixels: int, took_s: float, now_s: float) -> None:
        """A request of ``pixels`` took ``took_s`` and ended at ``now_s``."""
        self._samples.append((now_s, pixels, took_s))

    def needs_s(self, pixels: int, now_s: float) -> float:
        """What a request of ``pixels`` needs; 0 if nothing is known."""
        if not self._samples or now_s - self._samples[-1][0] > STALE_S:
            return 0.0
        found = sorted(
            took_s * min(1.0, pixels / size)
            for when_s, size, took_s in self._samples
            if now_s - when_s <= WINDOW_S and 2 * size >= pixels > 0
        )
        return found[int(QUANTILE * len(found))] if found else 0.0
