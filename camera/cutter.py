"""When a new segment begins. A segment is one GOP: it starts with an IDR picture and can be opened alone."""

from __future__ import annotations

from dataclasses import dataclass

from base.errors import UsageError


@dataclass(frozen=True, slots=True)
class CutRules:
    """Lengths in seconds of capture time."""

    target_s: float = 2.0  # where the sealed layer is coded here, so any picture can be a key frame
    min_s: float = 1.0  # copied packets: take no source key frame earlier
    max_s: float = 4.0  # copied packets: do not wait longer for a source key frame
    request_gap_s: float = 0.5  # key frames on request come no faster
    max_bytes: int = 128 * 1024 * 1024  # sealed bytes after which a segment ends in any case

    def __post_init__(self) -> None:
        if not 0 < self.min_s <= self.target_s <= self.max_s:
            message = (
                f"segment length: expected 0 < min <= target <= max, "
                f"got {self.min_s:g}, {self.target_s:g}, {self.max_s:g} s"
            )
            raise UsageError(message)


class SegmentCutter:
    """Decides picture by picture. Pure: time comes in with the pictures.

    With ``follows_source`` (copy mode) a segment should begin with a source key packet, so that its sealed
    part decodes alone: the cut waits for one between ``min_s`` and ``max_s``, and prefers the one nearest to
    the target. Otherwise it cuts at the target.
    """

    def __init__(self, rules: CutRules, *, follows_source: bool) -> None:
        self._rules = rules
        self._follows_source = follows_source
        self._start_us: int | None = None
        self._starts_with_key = False
        self._last_key_us: int | None = None
        self._key_gap_us: int | None = None
        self._bytes = 0

    def starts_segment(
        self, time_us: int, *, source_key: bool, discontinuity: bool, requested: bool, num_bytes: int = 0
    ) -> bool:
        """Whether the picture of ``time_us``, with ``num_bytes`` of sealed packets, begins a segment."""
        if source_key:
            if self._last_key_us is not None:
                self._key_gap_us = time_us - self._last_key_us
            self._last_key_us = time_us
        cut = self._decide(time_us, source_key, discontinuity, requested)
        if cut:
            self._start_us, self._starts_with_key, self._bytes = time_us, source_key, 0
        self._bytes += num_bytes
        return cut

    def _decide(self, time_us: int, source_key: bool, discontinuity: bool, requested: bool) -> bool:
        if self._start_us is None or discontinuity or self._bytes >= self._rules.max_bytes:
            return True
        age_s = (time_us - self._start_us) / 1e6
        if requested and age_s >= self._rules.request_gap_s:
            return True
        if not self._follows_source:
            return _reached(age_s, self._rules.target_s)
        return (source_key and self._suits(age_s)) or _reached(age_s, self._rules.max_s)

    def _suits(self, age_s: float) -> bool:
        """Whether a source key frame at this age should begin a segment, or the next one is nearer."""
        rules = self._rules
        if not self._starts_with_key:
            return age_s >= min(rules.min_s, rules.request_gap_s)
        if not _reached(age_s, rules.min_s) or self._key_gap_us is None:
            return _reached(age_s, rules.min_s)
        next_s = age_s + self._key_gap_us / 1e6
        return next_s - rules.target_s >= abs(rules.target_s - age_s)


def _reached(age_s: float, limit_s: float) -> bool:
    """True at the picture nearest to the limit: timestamps are rounded to microseconds or milliseconds."""
    return age_s >= limit_s - 0.002
