"""Which regions of the picture are meant, and when: boxes that stand still, and tracks that move.

Boxes are in pixels of the protected picture, which everybody can see, and are rounded outwards to whole
regions. A track is what a detector or tracker wrote while it watched the protected video; between two
sightings of it, the box around both counts.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from base.errors import LimitExceeded, Malformed, UsageError
from base.files import read_bounded
from codec.regions import RegionGrid
from forensics.selection import TimePoint, TimeRange, parse_time

MAX_TRACK_FILE_BYTES = 256 * 1024 * 1024
MAX_RULES = 64
MAX_LINE_CHARACTERS = 1 << 20
_MAX_SIGHTINGS = 1_000_000
_HOLD_US = 2_000_000  # trackers give an object up after so long
_SLACK_US = 50_000  # times in track files are rounded, to milliseconds or to a picture
_LEAST_UNIX_S = 10**8  # smaller numbers are seconds since the start of the recording
_TIMES = re.compile(r"(?P<start>[0-9:.]*)-(?P<end>[0-9:.]*)")


class Box(NamedTuple):
    """Left, top, right, bottom in pixels of the protected picture."""

    left: float
    top: float
    right: float
    bottom: float

    def around(self, other: Box) -> Box:
        """The smallest box that holds both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )


class Sighting(NamedTuple):
    """Where a track was at one time."""

    time: TimePoint
    box: Box


@dataclass(frozen=True, slots=True)
class BoxRule:
    """One box for a while. ``text`` is what was asked for, for the ledger."""

    text: str
    box: Box
    times: TimeRange = field(default_factory=TimeRange)


@dataclass(frozen=True, slots=True)
class TrackRule:
    """One track; sightings in the order of the file."""

    text: str
    sightings: tuple[Sighting, ...]


@dataclass(frozen=True, slots=True)
class RegionChoice:
    """What was asked for: any of the rules; without rules, the whole picture and the sound."""

    rules: tuple[BoxRule | TrackRule, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rules) > MAX_RULES:
            message = f"regions: {len(self.rules)} boxes and tracks, limit is {MAX_RULES}"
            raise UsageError(message)

    @property
    def texts(self) -> tuple[str, ...]:
        """The rules as they were given."""
        return tuple(rule.text for rule in self.rules)

    def at_start(self, origin_us: int) -> ResolvedChoice:
        """Return the choice for a recording whose first picture was taken at ``origin_us``.

        Raises:
            UsageError: a time range is empty.
        """
        return ResolvedChoice(tuple(_resolved(rule, origin_us) for rule in self.rules))


class ResolvedChoice:
    """The choice on the clock of one recording."""

    def __init__(self, rules: Sequence[_Timed]) -> None:
        self._rules = tuple(rules)

    @property
    def is_whole(self) -> bool:
        """Whether all of the picture is meant, and the sound."""
        return not self._rules

    def regions_at(self, time_us: int, grid: RegionGrid, width: int, height: int) -> frozenset[int]:
        """The regions of a picture taken at ``time_us``.

        Args:
            time_us: capture time, Unix microseconds.
            grid: where the regions lie in the original.
            width: of the protected picture, which the boxes refer to, in pixels.
            height: likewise.
        """
        if self.is_whole:
            return frozenset(range(grid.num_regions))
        across, down = _scale(grid.width, width), _scale(grid.height, height)
        found: set[int] = set()
        for box in (box for rule in self._rules for box in rule.boxes_at(time_us)):
            found |= grid.touching(box.left * across, box.top * down, box.right * across, box.bottom * down)
        return frozenset(found)


def _scale(original: int, protected: int) -> float:
    """An original with an odd size loses one column or row in the protected picture: that is no scaling."""
    return 1.0 if not protected or abs(original - protected) <= 1 else original / protected


class _Timed:
    """A rule with its times in Unix microseconds."""

    def boxes_at(self, time_us: int) -> Iterator[Box]:
        raise NotImplementedError


class _TimedBox(_Timed):
    def __init__(self, rule: BoxRule, origin_us: int) -> None:
        self._box = rule.box
        start_us, end_us = rule.times.resolve(origin_us)
        self._start_us = -math.inf if start_us is None else start_us
        self._end_us = math.inf if end_us is None else end_us

    def boxes_at(self, time_us: int) -> Iterator[Box]:
        if self._start_us <= time_us < self._end_us:
            yield self._box


class _TimedTrack(_Timed):
    def __init__(self, rule: TrackRule, origin_us: int) -> None:
        placed = sorted((each.time.resolve(origin_us), each.box) for each in rule.sightings)
        self._times_us = [time_us for time_us, _ in placed]
        self._boxes = [box for _, box in placed]

    def boxes_at(self, time_us: int) -> Iterator[Box]:
        first = bisect_left(self._times_us, time_us - _SLACK_US)
        stop = bisect_right(self._times_us, time_us + _SLACK_US)
        yield from self._boxes[first:stop]
        before, after = bisect_right(self._times_us, time_us) - 1, bisect_left(self._times_us, time_us)
        is_between = 0 <= before < after < len(self._boxes)
        if is_between and self._times_us[after] - self._times_us[before] <= _HOLD_US:
            yield self._boxes[before].around(self._boxes[after])


def _resolved(rule: BoxRule | TrackRule, origin_us: int) -> _Timed:
    return _TimedBox(rule, origin_us) if isinstance(rule, BoxRule) else _TimedTrack(rule, origin_us)


def parse_box(text: str) -> BoxRule:
    """Read ``x,y,w,h[@t0-t1]``: pixels of the protected picture; seconds, HH:MM:SS, or ISO 8601 with ``/``.

    Examples: ``320,100,64,128``, ``320,100,64,128@12.5-20``, ``0,0,64,64@-30``,
    ``0,0,64,64@2026-11-30T08:00:00Z/2026-11-30T08:01:00Z``.

    Raises:
        UsageError: another text, or an empty box.
    """
    place, _, times = text.partition("@")
    try:
        x, y, width, height = (float(part) for part in place.split(","))
    except ValueError:
        x = y = width = height = math.nan
    if not all(map(math.isfinite, (x, y, width, height))) or width <= 0 or height <= 0:
        message = f"region {text[:60]!r}: expected x,y,w,h[@t0-t1] with a width and a height above 0"
        raise UsageError(message)
    return BoxRule(text[:200], Box(x, y, x + width, y + height), _time_range(times))


def _time_range(text: str) -> TimeRange:
    if not text:
        return TimeRange()
    start, slash, end = text.partition("/")
    if not slash:
        match = _TIMES.fullmatch(text)
        if match is None:
            message = f"times {text[:60]!r}: expected t0-t1 in seconds or HH:MM:SS, or ISO 8601 as t0/t1"
            raise UsageError(message)
        start, end = match["start"], match["end"]
    return TimeRange(parse_time(start) if start else None, parse_time(end) if end else None)


def read_track(path: Path, track: str) -> TrackRule:
    """Read the sightings of one track from JSON Lines.

    A line is one of: a picture of ``veilcam detect`` whose detections have ids; an event of a camera; or
    ``{"id": ..., "time_s": ..., "box_xyxy": [left, top, right, bottom]}``. ``time_s`` counts from the start
    of the recording or, above 10^8, from 1970. Lines about other tracks are passed over.

    Raises:
        UsageError: the file cannot be read, or has no line about this track.
        FormatError: a line is not JSON, or says something impossible about the track.
    """
    try:
        data = read_bounded(path, MAX_TRACK_FILE_BYTES)
    except OSError as error:
        message = f"{path}: {error.strerror}"
        raise UsageError(message) from error
    sightings = tuple(parse_sightings(data.decode("utf-8", "replace").splitlines(), track, path.name))
    if not sightings:
        message = f"{path.name}: nothing about the track {track!r}"
        raise UsageError(message)
    return TrackRule(f"track {track[:100]} of {path.name[:100]}", sightings)


def parse_sightings(lines: Iterable[str], track: str, name: str = "tracks") -> Iterator[Sighting]:
    """Yield the sightings of one track, in the order of the lines; see `read_track`."""
    count = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        for time_s, row in _rows(_document(line, where)):
            if str(row.get("id", row.get("track", row.get("track_id")))) != track:
                continue
            count += 1
            if count > _MAX_SIGHTINGS:
                message = f"{name}: more than {_MAX_SIGHTINGS} sightings of {track!r}"
                raise LimitExceeded(message)
            yield Sighting(_time(time_s, where), _box(row.get("box_xyxy", row.get("box")), where))


def _document(line: str, where: str) -> Mapping[str, object]:
    try:
        found = json.loads(line) if len(line) <= MAX_LINE_CHARACTERS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        message = f"{where}: expected a JSON object of at most {MAX_LINE_CHARACTERS} characters"
        raise Malformed(message)
    return found


def _rows(document: Mapping[str, object]) -> Iterator[tuple[object, Mapping[str, object]]]:
    """Time and detection, from any of the shapes."""
    detections, event = document.get("detections"), document.get("after")
    if isinstance(detections, list):
        yield from ((document.get("time_s"), row) for row in detections if isinstance(row, dict))
    elif isinstance(event, dict):
        yield event.get("frame_time"), event
    else:
        yield document.get("time_s"), document


def _time(value: object, where: str) -> TimePoint:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 10**11:
        message = f"{where}: time_s is {value!r:.40}, expected seconds"
        raise Malformed(message)
    return TimePoint(round(value * 1_000_000), is_absolute=value >= _LEAST_UNIX_S)


def _box(value: object, where: str) -> Box:
    numbers = [each for each in value if isinstance(each, int | float)] if isinstance(value, list) else []
    if len(numbers) != 4 or not all(math.isfinite(each) and abs(each) < 10**6 for each in numbers):
        message = f"{where}: box_xyxy is {value!r:.60}, expected four numbers of pixels"
        raise Malformed(message)
    return Box(*map(float, numbers))
