"""What a hop (recorder, media server, converter) kept of a protected stream, by a file from either side."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from codec.access_unit import AccessUnit
from codec.carrier import picture_id
from codec.container import read_access_units
from codec.segments import view_unit
from codec.sei import SeiKind, veilcam_kind

MAX_UNITS = 500_000


class Kept(enum.Enum):
    """What a hop did, the worst of it."""

    ALL = "all"
    PICTURES_LOST = "pictures lost"
    SEI_OF_KEY_FRAMES = "SEI of key frames only"
    SEI_PARTLY = "SEI in part"
    NO_SEI = "no SEI"
    RE_ENCODED = "re-encoded"
    NOTHING = "nothing in common"


ADVICE = {
    Kept.ALL: "Everything arrived. Recordings behind this hop verify and can be opened.",
    Kept.PICTURES_LOST: "Some pictures did not arrive, the others are whole: packet loss (use TCP)?",
    Kept.SEI_OF_KEY_FRAMES: "Use the gop carrier (carrier: gop): then all of it travels in key frames.",
    Kept.SEI_PARTLY: "Parts of the signed and sealed data are lost: raise its limits, or record beside it.",
    Kept.NO_SEI: "The hop removes SEI: record at the camera or with `veilcam subscribe --record` beside it.",
    Kept.RE_ENCODED: "The hop codes anew: record at the camera or with `veilcam subscribe --record`.",
    Kept.NOTHING: "No picture of one file is in the other. Are they of the same time?",
}


@dataclass(slots=True)
class Carried:
    """What one file holds of a span of pictures.

    Attributes:
        sealed_bytes: of SEALED SEI NAL units.
    """

    pictures: int = 0
    key_frames: int = 0
    meta: int = 0
    meta_of_key_frames: int = 0
    sealed: int = 0
    sealed_bytes: int = 0

    def add(self, unit: AccessUnit) -> None:
        """Count a unit."""
        kinds = [(veilcam_kind(nal), len(nal)) for nal in unit.nals]
        has_meta = any(kind == SeiKind.META for kind, _ in kinds)
        self.pictures += 1
        self.key_frames += unit.is_keyframe
        self.meta += has_meta
        self.meta_of_key_frames += has_meta and unit.is_keyframe
        self.sealed += sum(kind == SeiKind.SEALED for kind, _ in kinds)
        self.sealed_bytes += sum(size for kind, size in kinds if kind == SeiKind.SEALED)


@dataclass(frozen=True, slots=True)
class CarrierReport:
    """The comparison. ``sent`` and ``received`` cover the span that both files have."""

    kept: Kept
    sent: Carried
    received: Carried
    changed_units: int  # pictures that arrived with other SEI than they left with
    largest_time_error_s: float  # of the distance of two pictures
    spans: tuple[str, str] | None = None  # when each was captured; told where nothing is in common

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.kept is not Kept.NOTHING or self.spans is None:
            return ADVICE[self.kept]
        return f"{ADVICE[self.kept]} Sent is {self.spans[0]}, received {self.spans[1]}."

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "kept": self.kept.value,
            "advice": self.advice,
            "pictures": [self.sent.pictures, self.received.pictures],
            "signed": [self.sent.meta, self.received.meta],
            "sealed": [self.sent.sealed, self.received.sealed],
            "sealed_bytes": [self.sent.sealed_bytes, self.received.sealed_bytes],
            "changed_units": self.changed_units,
            "largest_time_error_s": round(self.largest_time_error_s, 4),
        }

    def text(self) -> str:
        """For people."""
        rows = [
            ("pictures", self.sent.pictures, self.received.pictures),
            ("signed (META)", self.sent.meta, self.received.meta),
            ("sealed pieces", self.sent.sealed, self.received.sealed),
            ("sealed bytes", self.sent.sealed_bytes, self.received.sealed_bytes),
        ]
        lines = [f"{'':14}  {'sent':>10}  {'received':>10}"]
        lines += [f"{name:14}  {before:>10}  {behind:>10}" for name, before, behind in rows]
        lines.append(f"times           differ by at most {1000 * self.largest_time_error_s:.1f} ms")
        return "\n".join([*lines, "", f"kept: {self.kept.value}. {self.advice}"])


@dataclass(slots=True)
class _Side:
    units: list[AccessUnit] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    captured_us: list[int] = field(default_factory=list)  # of signed pictures

    @property
    def span(self) -> str:
        """From when to when it was captured, UTC."""
        if not self.captured_us:
            return "of an unknown time"
        ends = (min(self.captured_us), max(self.captured_us))
        first, last = (datetime.fromtimestamp(us / 1e6, UTC) for us in ends)
        return f"from {first:%Y-%m-%d %H:%M:%S} to {last:%H:%M:%S} UTC"

    @classmethod
    def read(cls, path: Path) -> _Side:
        side = cls()
        with read_access_units(path) as reader:
            for unit in reader:
                if len(side.units) >= MAX_UNITS:
                    break
                side.names.append(picture_id(unit))
                meta = view_unit(unit).meta
                frame = None if meta is None else meta.frame
                if frame is not None:
                    side.captured_us.append(frame.time_us)
                # What is compared are the SEI; pictures are named by their digest.
                ours = tuple(nal for nal in unit.nals if veilcam_kind(nal) is not None)
                side.units.append(AccessUnit(ours, unit.pts_us, unit.is_keyframe))
        return side


def compare(sent: Path, received: Path) -> CarrierReport:
    """Compare a recording made before a hop with one made behind it.

    Raises:
        MediaError: a file cannot be read.
    """
    before, behind = _Side.read(sent), _Side.read(received)
    pairs = _pairs(before.names, behind.names)
    if not pairs:
        left, arrived = _counts(before.units), _counts(behind.units)
        kept = Kept.RE_ENCODED if left.meta and not arrived.meta else Kept.NOTHING
        return CarrierReport(kept, left, arrived, 0, 0.0, (before.span, behind.span))
    first, last = pairs[0], pairs[-1]
    spans = before.units[first[0] : last[0] + 1], behind.units[first[1] : last[1] + 1]
    changed = sum(before.units[a].nals != behind.units[b].nals for a, b in pairs)
    left, arrived = _counts(spans[0]), _counts(spans[1])
    kept = _judge(left, arrived, changed, lost=len(spans[0]) - len(pairs))
    return CarrierReport(kept, left, arrived, changed, _time_error_s(before.units, behind.units, pairs))


def _judge(sent: Carried, received: Carried, changed: int, *, lost: int) -> Kept:
    if sent.meta and not received.meta:
        return Kept.NO_SEI
    others_sent = sent.meta - sent.meta_of_key_frames
    others_received = received.meta - received.meta_of_key_frames
    if others_sent and not others_received:
        return Kept.SEI_OF_KEY_FRAMES
    if changed:
        return Kept.SEI_PARTLY
    return Kept.PICTURES_LOST if lost else Kept.ALL


def _pairs(before: list[bytes], behind: list[bytes]) -> list[tuple[int, int]]:
    """Positions of the same picture in both, rising in both."""
    places: dict[bytes, list[int]] = {}
    for index, name in enumerate(before):
        places.setdefault(name, []).append(index)
    found: list[tuple[int, int]] = []
    last = -1
    for index, name in enumerate(behind):
        place = next((at for at in places.get(name, ()) if at > last), None)
        if place is not None:
            found.append((place, index))
            last = place
    return found


def _counts(units: Iterable[AccessUnit]) -> Carried:
    counts = Carried()
    for unit in units:
        counts.add(unit)
    return counts


def _time_error_s(before: list[AccessUnit], behind: list[AccessUnit], pairs: list[tuple[int, int]]) -> float:
    origin = before[pairs[0][0]].pts_us, behind[pairs[0][1]].pts_us
    errors = (abs(before[a].pts_us - origin[0] - (behind[b].pts_us - origin[1])) for a, b in pairs)
    return max(errors, default=0) / 1e6
