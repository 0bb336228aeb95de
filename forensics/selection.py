"""Which part of a recording is meant: absolute times, or offsets from its start."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from base.errors import UsageError

_MICROS = 1_000_000
_SECONDS = re.compile(r"(\d{1,9})(?:\.(\d{1,6}))?", re.ASCII)
_CLOCK = re.compile(r"(\d{1,4}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class TimePoint:
    """A capture time: Unix microseconds when absolute, else microseconds after the recording's start."""

    micros: int
    is_absolute: bool

    def resolve(self, origin_us: int) -> int:
        """Return Unix microseconds for a recording that starts at ``origin_us``."""
        return self.micros if self.is_absolute else origin_us + self.micros


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Half-open range of capture time; None leaves that side open."""

    start: TimePoint | None = None
    end: TimePoint | None = None

    def resolve(self, origin_us: int) -> tuple[int | None, int | None]:
        """Return both ends in Unix microseconds.

        Raises:
            UsageError: the range is empty.
        """
        start_us = self.start.resolve(origin_us) if self.start else None
        end_us = self.end.resolve(origin_us) if self.end else None
        if start_us is not None and end_us is not None and start_us >= end_us:
            message = f"time range: starts at {iso_time(start_us)}, not before its end {iso_time(end_us)}"
            raise UsageError(message)
        return start_us, end_us


def parse_time(text: str) -> TimePoint:
    """Read ``12.5`` (seconds from the start), ``HH:MM:SS[.ffffff]`` (same), or ISO 8601 with a zone.

    Raises:
        UsageError: none of these, or an ISO time without a zone.
    """
    stripped = text.strip()
    if seconds := _SECONDS.fullmatch(stripped):
        return TimePoint(int(seconds[1]) * _MICROS + _fraction_us(seconds[2]), is_absolute=False)
    if clock := _CLOCK.fullmatch(stripped):
        whole = (int(clock[1]) * 60 + int(clock[2])) * 60 + int(clock[3])
        return TimePoint(whole * _MICROS + _fraction_us(clock[4]), is_absolute=False)
    return TimePoint(_parse_iso(stripped), is_absolute=True)


def parse_range(start: str | None, end: str | None) -> TimeRange:
    """Read both ends of a range; None or an empty text leaves that side open.

    Raises:
        UsageError: one of them is not a time.
    """
    return TimeRange(parse_time(start) if start else None, parse_time(end) if end else None)


def iso_time(time_us: int) -> str:
    """Write Unix microseconds as ISO 8601 in UTC; times no calendar holds come out as a number."""
    try:
        moment = _EPOCH + dt.timedelta(microseconds=time_us)
    except OverflowError:
        return f"{time_us}us"
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _fraction_us(digits: str | None) -> int:
    return int(digits.ljust(6, "0")) if digits else 0


def _parse_iso(text: str) -> int:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        message = f"time {text[:40]!r}: expected seconds, HH:MM:SS, or ISO 8601 with a time zone"
        raise UsageError(message) from error
    if moment.tzinfo is None:
        message = f"time {text[:40]!r}: needs a time zone, for example {moment.isoformat()}Z"
        raise UsageError(message)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)
