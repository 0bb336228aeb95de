"""Groups access units into segments, whatever happened to them on the way. Needs no key and judges nothing.

A segment's units all name it (stream id, segment index) and it starts with frame 0, an IDR
picture. So a new segment begins

    at a unit that names another segment and is a key frame or frame 0,
    at the second of two units in a row that name the same other segment (the key frame was lost),
    at frame 0 of the same segment when there was one already (a replay),
    at a key frame without data of ours (an unsigned recording spliced in).

Everything else stays with the segment around it: a single unit of another segment (a swap, or a
damaged record), and pictures without data of ours. What that means is for `codec.verify` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from base.errors import FormatError, Malformed
from codec.access_unit import AccessUnit
from codec.limits import DEFAULT_LIMITS, Limits
from codec.records import FrameRecord, Meta, SegmentHeader
from codec.sei import SeiKind, read_veilcam, veilcam_kind


class SegmentKey(NamedTuple):
    """Which segment a unit says it belongs to."""

    stream_id: bytes
    segment_index: int


@dataclass(frozen=True, slots=True)
class ViewedUnit:
    """An access unit with its META message read.

    Attributes:
        meta: None if there is none, or it is damaged.
        problem: why META could not be read.
    """

    unit: AccessUnit
    meta: Meta | None
    problem: FormatError | None = None

    @property
    def key(self) -> SegmentKey | None:
        """The segment that the unit names."""
        frame = self.frame
        return None if frame is None else SegmentKey(frame.stream_id, frame.segment_index)

    @property
    def frame(self) -> FrameRecord | None:
        """The FRAME record."""
        return None if self.meta is None else self.meta.frame


@dataclass(frozen=True, slots=True)
class SegmentView:
    """Consecutive units that belong together.

    Attributes:
        key: None if no unit names a segment.
        units: in the order read; some may be of other segments, or unsigned.
        ends_input: nothing was read behind them.
    """

    key: SegmentKey | None
    units: tuple[ViewedUnit, ...]
    ends_input: bool = False

    def own_units(self) -> Iterator[tuple[FrameRecord, ViewedUnit]]:
        """The units that name this segment, with their FRAME records."""
        for viewed in self.units:
            if viewed.frame is not None and viewed.key == self.key:
                yield viewed.frame, viewed

    @property
    def header_body(self) -> bytes | None:
        """The HEADER body; it counts in frame 0 only."""
        for frame, viewed in self.own_units():
            if frame.frame_index == 0 and viewed.meta is not None and viewed.meta.header is not None:
                return viewed.meta.header
        return None

    def header(self, limits: Limits = DEFAULT_LIMITS) -> SegmentHeader | None:
        """The header, read; None if it is missing.

        Raises:
            FormatError: it is damaged, of a newer version, or names another segment than its unit does.
        """
        body = self.header_body
        if body is None or self.key is None:
            return None
        header = SegmentHeader.parse(body, limits)
        if (header.stream_id, header.segment_index) != self.key:
            message = f"HEADER record: names segment {header.segment_index}, FRAME {self.key.segment_index}"
            raise Malformed(message)
        return header


def view_unit(unit: AccessUnit, limits: Limits = DEFAULT_LIMITS) -> ViewedUnit:
    """Read a unit's META message; damage is noted, not raised."""
    try:
        bodies = [
            message[1]
            for nal in unit.nals
            if veilcam_kind(nal) == SeiKind.META and (message := read_veilcam(nal, limits)) is not None
        ]
        if len(bodies) > 1:
            text = f"access unit: {len(bodies)} META messages, expected one"
            raise Malformed(text)
        return ViewedUnit(unit, Meta.parse(bodies[0], limits) if bodies else None)
    except FormatError as error:
        return ViewedUnit(unit, None, error)


def read_segments(units: Iterable[AccessUnit], limits: Limits = DEFAULT_LIMITS) -> Iterator[SegmentView]:
    """Group units into segments, in the order read. Holds one segment and one unit at a time.

    Whatever the units hold, this raises nothing of its own; a segment above the limits comes in
    pieces. Units without a picture are dropped.
    """
    grouper = SegmentGrouper(limits)
    for unit in units:
        if unit.has_picture:
            yield from grouper.push(view_unit(unit, limits))
    rest = list(grouper.finish())
    yield from rest[:-1]
    yield from (replace(last, ends_input=True) for last in rest[-1:])


class SegmentGrouper:
    """What `read_segments` does, for units that arrive one by one (live)."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        """Start with nothing."""
        self._limits = limits
        self._key: SegmentKey | None = None
        self._units: list[ViewedUnit] = []
        self._num_bytes = 0
        self._has_first = False
        self._stray: ViewedUnit | None = None  # names another segment; the next unit tells where it goes

    def push(self, viewed: ViewedUnit) -> Iterator[SegmentView]:
        """Take the next unit; yields the segments that are finished by it."""
        if not self._units:
            self._append(viewed)
        elif self._is_full(viewed):
            yield from self.finish()
            self._append(viewed)
        elif viewed.key is None:
            yield from self._push_unsigned(viewed)
        elif self._key is None:
            yield from self._push_after_unsigned(viewed)
        elif viewed.key == self._key:
            yield from self._push_own(viewed)
        else:
            yield from self._push_other(viewed)

    def finish(self) -> Iterator[SegmentView]:
        """Give out what is held, finished or not."""
        stray, self._stray = self._stray, None
        if self._units:
            yield SegmentView(self._key, tuple(self._units))
        self._units = []
        self._num_bytes = 0
        self._has_first = False
        self._key = None
        if stray is not None:
            self._append(stray)
            yield from self.finish()

    def _push_unsigned(self, viewed: ViewedUnit) -> Iterator[SegmentView]:
        if viewed.unit.is_keyframe:
            yield from self.finish()
        self._append(viewed)

    def _push_after_unsigned(self, viewed: ViewedUnit) -> Iterator[SegmentView]:
        only, *more = self._units
        is_damaged_start = not more and only.problem is not None and only.unit.is_keyframe
        if not is_damaged_start or viewed.unit.is_keyframe:
            yield from self.finish()
        self._append(viewed)

    def _push_own(self, viewed: ViewedUnit) -> Iterator[SegmentView]:
        if _is_first(viewed) and self._has_first:
            yield from self.finish()
        self._append(viewed)

    def _push_other(self, viewed: ViewedUnit) -> Iterator[SegmentView]:
        stray = self._stray
        follows_stray = stray is not None and stray.key == viewed.key
        if follows_stray:
            self._stray = None
            yield from self.finish()
            self._append(stray)
            yield from self._push_own(viewed)
        elif viewed.unit.is_keyframe or _is_first(viewed):
            yield from self.finish()
            self._append(viewed)
        else:
            self._keep_stray()
            self._stray = viewed

    def _keep_stray(self) -> None:
        if self._stray is not None:
            stray, self._stray = self._stray, None
            self._append(stray)

    def _append(self, viewed: ViewedUnit | None) -> None:
        if viewed is None:
            return
        self._keep_stray()
        if self._key is None:
            self._key = viewed.key
        self._has_first |= viewed.key == self._key and _is_first(viewed)
        self._units.append(viewed)
        self._num_bytes += viewed.unit.num_bytes

    def _is_full(self, viewed: ViewedUnit) -> bool:
        return (
            len(self._units) >= self._limits.max_frames_per_segment
            or self._num_bytes + viewed.unit.num_bytes > self._limits.max_segment_bytes
        )


def _is_first(viewed: ViewedUnit) -> bool:
    return viewed.frame is not None and viewed.frame.frame_index == 0
