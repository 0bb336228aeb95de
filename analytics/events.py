"""What is told to the outside: objects that come, change and go, and changes of the camera itself.

One event is one JSON object. The fields of an object's event are those of Frigate's ``frigate/events``
(docs.frigate.video, integrations/mqtt), so that what reads those reads these.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Json = dict[str, object]
ObjectChange = Literal["new", "update", "end"]
NoticeName = Literal[
    "live", "not-live", "recording", "recording-stopped", "viewer-joined", "viewer-left", "error"
]
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class TrackedObject:
    """One object as it was at one moment.

    Attributes:
        object_id: unique among all cameras and runs.
        label: class name.
        score: of the last picture, 0 to 1.
        top_score: the highest so far.
        box_xyxy: left, top, right, bottom in pixels.
        start_s: Unix seconds of its first picture.
        last_s: Unix seconds of its last picture.
        end_s: as ``last_s`` once it has gone, else None.
    """

    object_id: str
    label: str
    score: float
    top_score: float
    box_xyxy: Box
    start_s: float
    last_s: float
    end_s: float | None = None

    def to_json(self, camera: str) -> Json:
        """Frigate's names for it."""
        left, top, right, bottom = self.box_xyxy
        width, height = right - left, bottom - top
        return {
            "id": self.object_id,
            "camera": camera,
            "label": self.label,
            "score": round(self.score, 4),
            "top_score": round(self.top_score, 4),
            "false_positive": False,
            "box": [round(edge, 1) for edge in self.box_xyxy],
            "area": round(width * height),
            "ratio": round(width / height, 3) if height > 0 else 0.0,
            "frame_time": round(self.last_s, 3),
            "start_time": round(self.start_s, 3),
            "end_time": None if self.end_s is None else round(self.end_s, 3),
            "current_zones": [],
            "entered_zones": [],
            "has_snapshot": False,  # there is no picture of the object: the stream itself is the picture
            "has_clip": False,
        }


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An object appeared, changed or has gone. ``before`` is the state of the event before, None for new."""

    camera: str
    change: ObjectChange
    before: TrackedObject | None
    after: TrackedObject

    @property
    def time_s(self) -> float:
        """Unix seconds."""
        return self.after.last_s

    def to_json(self) -> Json:
        """As one line of JSON Lines, a webhook's body or an MQTT message."""
        after = self.after.to_json(self.camera)
        before = after if self.before is None else self.before.to_json(self.camera)
        return {"type": self.change, "before": before, "after": after}


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the camera itself. ``detail`` is for people."""

    camera: str
    name: NoticeName
    time_s: float
    detail: str = ""

    def to_json(self) -> Json:
        """As one line of JSON Lines, a webhook's body or an MQTT message."""
        return {"type": "notice", **asdict(self)}


@dataclass(frozen=True, slots=True)
class Counts:
    """How many objects of each label are in view; sent when it changes."""

    camera: str
    time_s: float
    by_label: dict[str, int]

    def to_json(self) -> Json:
        """As one line of JSON Lines or a webhook's body."""
        return {"type": "counts", "camera": self.camera, "time_s": self.time_s, "counts": self.by_label}


Event = ObjectEvent | Notice | Counts
