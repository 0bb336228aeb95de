"""When to look at the whole frame: often while new objects appear or things are fast, seldom otherwise."""

from __future__ import annotations

import numpy as np

from analytics.elf.geometry import Numbers


class LookSchedule:
    """The number n of frames from one look to the next.

    A look that shows new objects halves n, one that shows none adds 1, within ``every``. What moves faster
    bounds n too: an object that enters at v of its own sizes per frame is in after 1/v frames, and the next
    look should not be later.
    """

    def __init__(self, every: tuple[int, int]) -> None:
        self._fewest, self._most = every
        self._every = float(self._fewest)
        self._bound = float(self._most)
        self._last: int | None = None

    @property
    def every(self) -> int:
        """n, now."""
        return int(max(self._fewest, min(self._every, self._bound)))

    def is_due(self, frame_index: int) -> bool:
        """Frame ``frame_index`` should carry a look."""
        return self._last is None or frame_index - self._last >= self.every

    def looked(self, frame_index: int) -> None:
        """A look (or the whole frame) is sent with ``frame_index``."""
        self._last = frame_index

    def answered(self, num_new: int) -> None:
        """The answer to a look held so many new objects."""
        self._every = self._every / 2 if num_new else self._every + 1
        self._every = min(max(self._every, self._fewest), self._most)

    def moving(self, speeds: Numbers) -> None:
        """Speeds of the known objects in their own sizes per frame, [n]."""
        fastest = float(np.quantile(speeds, 0.9)) if len(speeds) else 0.0
        self._bound = 1 / fastest if fastest > 0 else float(self._most)
