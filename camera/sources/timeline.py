"""One rising clock over loops and reconnects.

The first pass over a source keeps its timestamps as they are. Every later pass (a loop, a reconnect, a jump
of the camera's clock) is moved by one offset, so that timestamps go on rising. Capture time is Unix time of
the first picture plus source time since then: one constant offset, so variable frame rates stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

_SECOND_US = 1_000_000


def to_us(ticks: int, time_base: Fraction) -> int:
    """Ticks of a time base in microseconds, rounded to nearest."""
    return round(ticks * time_base * _SECOND_US)


@dataclass(slots=True)
class _Extent:
    """What one pass covered, in raw source microseconds."""

    first_us: int | None = None  # timestamp of the first packet
    min_pts_us: int | None = None
    end_us: int = 0

    def add(self, pts_us: int, end_us: int) -> None:
        self.min_pts_us = pts_us if self.min_pts_us is None else min(self.min_pts_us, pts_us)
        self.end_us = max(self.end_us, end_us)


class Timeline:
    """Moves packet timestamps so that they rise over passes. One per source; one thread."""

    def __init__(self) -> None:
        self._offset_us = 0
        self._extent = _Extent()
        self._next_start_us: int | None = None  # where a new pass begins; None: keep the offset
        self._lead_us = 0  # from the first packet of a pass to its earliest pts
        self._last_dts: dict[int, int] = {}
        self._origin_us: int | None = None
        self._start_unix_us = 0
        self._last_time_us: int | None = None

    def begin_pass(self, *, now_unix_us: int | None = None) -> None:
        """What follows has timestamps of its own: go on at the end so far, or at ``now`` if that is later."""
        end_us = self._extent.end_us + self._offset_us
        if self._extent.first_us is None:
            if self._next_start_us is not None:  # nothing came of the last pass either, and time goes on
                self._next_start_us = max(self._next_start_us, self._at(now_unix_us))
            return
        self._lead_us = 0
        if now_unix_us is None and self._extent.min_pts_us is not None:
            self._lead_us = self._extent.min_pts_us - self._extent.first_us
        self._next_start_us = max(end_us, self._at(now_unix_us))
        self._extent = _Extent()

    def _at(self, now_unix_us: int | None) -> int:
        """Where a wall clock's time lies; before everything, if that is not known."""
        if now_unix_us is None or self._origin_us is None:
            return -(1 << 62)
        return self._origin_us + now_unix_us - self._start_unix_us

    def shift(
        self, stream: int, pts: int | None, dts: int | None, duration: int | None, time_base: Fraction
    ) -> tuple[int | None, int | None]:
        """Timestamps of one packet, moved into the rising clock; None stays None."""
        first = dts if dts is not None else pts
        if first is not None:
            self._note(first, pts, duration, time_base)
        offset = round(Fraction(self._offset_us, _SECOND_US) / time_base)
        pts = None if pts is None else pts + offset
        dts = None if dts is None else dts + offset
        if dts is not None:
            if offset and dts <= self._last_dts.get(stream, dts - 1):
                dts = self._last_dts[stream] + 1
                pts = pts if pts is None else max(pts, dts)
            self._last_dts[stream] = dts
        return pts, dts

    def start_at(self, shifted_us: int, unix_us: int) -> None:
        """Pin the clock: source time ``shifted_us`` is ``unix_us``. Only the first call counts."""
        if self._origin_us is None:
            self._origin_us, self._start_unix_us = shifted_us, unix_us

    @property
    def pinned(self) -> bool:
        """True once ``start_at`` was called."""
        return self._origin_us is not None

    def time_us(self, shifted_us: int) -> int:
        """Capture time of a picture, strictly later than the one before."""
        if self._origin_us is None:
            message = "the clock has no start yet"
            raise RuntimeError(message)
        time_us = self._start_unix_us + shifted_us - self._origin_us
        if self._last_time_us is not None:
            time_us = max(time_us, self._last_time_us + 1)
        self._last_time_us = time_us
        return time_us

    def source_us(self, time_us: int) -> int:
        """A capture time on the rising clock of the packets."""
        return time_us - self._start_unix_us + (self._origin_us or 0)

    def _note(self, first: int, pts: int | None, duration: int | None, time_base: Fraction) -> None:
        first_us = to_us(first, time_base)
        if self._next_start_us is not None:
            self._offset_us = self._next_start_us - self._lead_us - first_us
            self._next_start_us = None
        if self._extent.first_us is None:
            self._extent.first_us = first_us
        shown = pts if pts is not None else first
        self._extent.add(to_us(shown, time_base), to_us(shown + (duration or 0), time_base))
