"""How long to wait before the next attempt to open a lost camera."""

from __future__ import annotations

import random


class Backoff:
    """Exponential back-off with jitter: 0.5 s, 1 s, 2 s ... up to ``cap_s``, each times 0.5 to 1.

    The jitter keeps many cameras behind one switch from coming back in the same instant.
    """

    def __init__(
        self, base_s: float = 0.5, cap_s: float = 30.0, random_source: random.Random | None = None
    ) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self._random = random_source or random.Random()
        self._failures = 0

    def next_delay_s(self) -> float:
        """Seconds to wait after one more failure."""
        full_s = min(self._cap_s, self._base_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return full_s * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """The source works again."""
        self._failures = 0
