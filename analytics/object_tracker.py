"""From boxes in single pictures to objects that come, stay and go. Pure: no clock, no thread."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from analytics.detections import DetectionRow
from analytics.events import Box, Counts, Event, ObjectEvent, TrackedObject

MAX_OBJECTS = 256


@dataclass(frozen=True, slots=True)
class TrackerRules:
    """When two boxes are one object, and when it is there."""

    min_overlap: float = 0.2  # intersection over union with the last box; low, as detectors skip pictures
    min_pictures: int = 2  # seen so often before it is told: single pictures are mostly mistakes
    lost_after_s: float = 2.0
    update_every_s: float = 1.0


@dataclass(slots=True)
class _Track:
    now: TrackedObject
    pictures: int = 1
    told: TrackedObject | None = None


@dataclass(slots=True)
class ObjectTracker:
    """Objects of one camera. Boxes are matched greedily by overlap within a label (as SORT without motion).

    At most 256 objects are followed; further boxes are passed over until some have gone.
    """

    camera: str
    rules: TrackerRules = field(default_factory=TrackerRules)
    _tracks: list[_Track] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)

    def push(self, time_s: float, rows: Sequence[DetectionRow]) -> list[Event]:
        """Take one picture's detections.

        Args:
            time_s: Unix seconds of the picture, not before the last one's.
            rows: what was found in it.

        Returns:
            What has changed, ends first, and the counts if they have changed.
        """
        events: list[Event] = list(self.expire(time_s))
        free = [track for track in self._tracks]
        for row in sorted(rows, key=lambda row: -row["score"]):
            track = _best(free, row, self.rules.min_overlap)
            if track is not None:
                free.remove(track)
                track.now = _moved(track.now, row, time_s)
                track.pictures += 1
            elif len(self._tracks) < MAX_OBJECTS:
                track = _Track(_first(row, time_s))
                self._tracks.append(track)
            else:
                continue
            events += self._tell(track)
        return events + self._count(time_s)

    def expire(self, time_s: float) -> list[Event]:
        """End the objects that were not seen for long enough (also when no more pictures come)."""
        gone = [track for track in self._tracks if time_s - track.now.last_s > self.rules.lost_after_s]
        self._tracks = [track for track in self._tracks if track not in gone]
        events: list[Event] = [
            ObjectEvent(self.camera, "end", track.told, replace(track.now, end_s=track.now.last_s))
            for track in gone
            if track.told is not None
        ]
        return events + (self._count(time_s) if events else [])

    def finish(self, time_s: float) -> list[Event]:
        """End everything: the stream is over."""
        for track in self._tracks:
            track.now = replace(track.now, last_s=min(track.now.last_s, time_s))
        return self.expire(time_s + 2 * self.rules.lost_after_s)

    def _tell(self, track: _Track) -> list[Event]:
        told, now = track.told, track.now
        if track.pictures < self.rules.min_pictures:
            return []
        if told is not None and now.last_s - told.last_s < self.rules.update_every_s:
            return []
        track.told = now
        return [ObjectEvent(self.camera, "new" if told is None else "update", told, now)]

    def _count(self, time_s: float) -> list[Event]:
        present = Counter(track.now.label for track in self._tracks if track.told is not None)
        counts = dict.fromkeys(self._counts, 0) | dict(present)  # a label that has gone is told as 0
        if counts == self._counts:
            return []
        self._counts = counts
        return [Counts(self.camera, time_s, dict(sorted(counts.items())))]


def _first(row: DetectionRow, time_s: float) -> TrackedObject:
    # Frigate's form of an id: it sorts by time.
    object_id = f"{time_s:.3f}-{secrets.token_hex(3)}"
    return TrackedObject(
        object_id, row["label"], row["score"], row["score"], _box(row), start_s=time_s, last_s=time_s
    )


def _moved(before: TrackedObject, row: DetectionRow, time_s: float) -> TrackedObject:
    return replace(
        before,
        score=row["score"],
        top_score=max(before.top_score, row["score"]),
        box_xyxy=_box(row),
        last_s=time_s,
    )


def _box(row: DetectionRow) -> Box:
    left, top, right, bottom = row["box_xyxy"]
    return left, top, right, bottom


def _best(tracks: Sequence[_Track], row: DetectionRow, min_overlap: float) -> _Track | None:
    same = [track for track in tracks if track.now.label == row["label"]]
    best = max(same, key=lambda track: overlap(track.now.box_xyxy, _box(row)), default=None)
    if best is None or overlap(best.now.box_xyxy, _box(row)) < min_overlap:
        return None
    return best


def overlap(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, 0 to 1."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)
