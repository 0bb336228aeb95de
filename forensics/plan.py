"""Which segments of a recording to open, and in which order. Pure: decides on what the survey found.

What the camera's signature contradicts is withheld: the segment whose signature fails, another
camera's, one with a changed header, a repeat, and streams spliced into another. So is a segment
without signature among signed ones, unless it is sealed under their key: anybody who knows the
recipient's public key could have made it. Inside a segment whose signature holds, only the access
units that fail are left out. Segments that are good and merely stand in the wrong place are
opened in their right place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from base.errors import FormatError, UsageError
from codec.evidence import Finding, Reason
from codec.records import SealedMode
from codec.regions import RegionGrid
from forensics.selection import TimeRange, iso_time
from forensics.verify_file import CheckedSegment
from keys.source import KeySource, epoch_ref

MAX_STEPS_BACK = 16
"""How often the order of opening may go back in the file; each costs one more reading of it."""

_WITHHELD = (
    Reason.SIGNATURE_INVALID,
    Reason.WRONG_CAMERA,
    Reason.HEADER_CHANGED,
    Reason.NEWER_FORMAT,
)
_BAD_UNITS = (Reason.PICTURE_CHANGED, Reason.CHUNKS_CHANGED, Reason.UNIT_INSERTED)


class OutsideRange(UsageError):  # noqa: N818  (as its base says where, not that it is an error)
    """Nothing of a recording lies in the range asked for."""


class Proof(Enum):
    """What says that the camera made a segment's original."""

    SIGNED = "signed"  # the camera's signature over the sealed chunks holds
    SAME_KEY = "same key"  # signature lost; sealed under the key of an epoch that signed segments use
    NONE = "none"  # only that it opens: anybody who knows the recipient's public key could have made it


@dataclass(frozen=True, slots=True)
class Candidate:
    """One segment as the plan sees it.

    Attributes:
        withheld: why it must not enter the output; None if it may.
        bad_frames: access units whose content the signature contradicts.
        is_ours: the keys at hand may open it.
        grid: how its original is split into regions; None: it is not.
        epoch_ref: hash of epoch id and wrapped keys: segments that share it share the epoch key.
    """

    ordinal: int
    name: str
    stream_id: bytes
    index: int
    start_us: int
    end_us: int
    starts_with_key: bool
    mode: SealedMode
    model_id: bytes
    is_ours: bool
    epoch_ref: bytes
    is_signed: bool
    is_spliced: bool
    is_out_of_order: bool
    bad_frames: frozenset[int]
    withheld: str | None = None
    grid: RegionGrid | None = None


@dataclass(frozen=True, slots=True)
class Unusable:
    """A segment of which nothing can be opened, whatever the key."""

    ordinal: int
    name: str
    why: str


def candidate_of(checked: CheckedSegment, name: str, source: KeySource) -> Candidate | Unusable:
    """Describe one surveyed segment; keeps no pictures."""
    evidence = checked.evidence
    try:
        header = checked.view.header()
    except FormatError:
        return Unusable(checked.ordinal, name, "its header is damaged")
    if checked.view.key is None:
        return Unusable(checked.ordinal, name, "no veilcam data")
    if header is None:
        return Unusable(checked.ordinal, name, "its header is missing")
    if header.sealed_mode is SealedMode.NONE:
        return Unusable(checked.ordinal, name, "it was made without a sealed layer")
    findings = evidence.findings
    withheld = next((str(finding) for finding in findings if finding.reason in _WITHHELD), None)
    start_us = header.start_us if evidence.start_us is None else evidence.start_us
    return Candidate(
        ordinal=checked.ordinal,
        name=name,
        stream_id=header.stream_id,
        index=header.segment_index,
        start_us=start_us,
        end_us=start_us if evidence.end_us is None else evidence.end_us,
        starts_with_key=header.starts_with_key,
        mode=header.sealed_mode,
        model_id=header.model_id,
        is_ours=source.covers(header),
        epoch_ref=epoch_ref(header),
        is_signed=evidence.camera_verified,
        is_spliced=Reason.SPLICED in evidence.reasons,
        is_out_of_order=Reason.SEGMENT_OUT_OF_ORDER in evidence.reasons,
        bad_frames=contradicted_frames(findings),
        withheld=withheld,
        grid=header.regions,
    )


def contradicted_frames(findings: Iterable[Finding]) -> frozenset[int]:
    """Indices of units whose content the signature contradicts."""
    return frozenset(
        finding.frame_index
        for finding in findings
        if finding.reason in _BAD_UNITS and finding.frame_index is not None
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What to open.

    Attributes:
        asked_us: the range asked for, Unix microseconds; None leaves a side open.
        order: segments to open, in the order of the output.
        withheld: segments of the range that may not enter, with the reason in each.
        outside: segments of the range that the grant does not hold.
        notes: for people, such as where the range was widened.
    """

    asked_us: tuple[int | None, int | None]
    order: tuple[Candidate, ...]
    withheld: tuple[Candidate, ...]
    signed_epochs: frozenset[bytes]
    notes: tuple[str, ...]
    outside: tuple[Candidate, ...] = ()

    def proof_of(self, segment: Candidate) -> Proof:
        """Say what proves a segment's origin."""
        if segment.is_signed:
            return Proof.SIGNED
        return Proof.SAME_KEY if segment.epoch_ref in self.signed_epochs else Proof.NONE


def make_plan(
    candidates: Sequence[Candidate], chosen: TimeRange, *, only_ours: bool = False, signed_only: bool = False
) -> Plan:
    """Choose the segments of a time range, in order, from all of a recording.

    With ``only_ours``, which is for grants, what the keys at hand do not cover is left out, and not tried.
    With ``signed_only``, which is for evidence, so is what only its key speaks for.

    Raises:
        UsageError: the range is empty, or nothing of the recording lies in it.
    """
    signed = frozenset(c.epoch_ref for c in candidates if c.is_signed)
    for rule in (_without_strangers, _without_repeats, _without_splices, _without_disorder):
        candidates = rule(candidates)
    if signed_only:
        candidates = _without_unsigned(candidates)
    usable = sorted(
        (c for c in candidates if c.withheld is None and (c.is_ours or not only_ours)),
        key=_order_key(candidates),
    )
    if not candidates:
        return Plan((None, None), (), (), signed, ())
    asked = chosen.resolve(min(c.start_us for c in candidates))
    wanted = [place for place, c in enumerate(usable) if _overlaps(c, _end_of(usable, place), asked)]
    touched = [c for c in candidates if _overlaps(c, c.end_us + 1, asked)]
    withheld = tuple(c for c in touched if c.withheld is not None and (c.is_ours or not only_ours))
    outside = tuple(c for c in touched if only_ours and not c.is_ours)
    if not wanted and not withheld and not outside:
        start, end = min(c.start_us for c in candidates), max(c.end_us for c in candidates)
        message = (
            f"time range: nothing is in it; the recording runs from {iso_time(start)} to {iso_time(end)}"
        )
        raise OutsideRange(message)
    first = _back_to_key(usable, wanted[0]) if wanted else 0
    order = tuple(usable[place] for place in [*range(first, wanted[0]), *wanted]) if wanted else ()
    return Plan(asked, order, withheld, signed, tuple(_notes(asked, usable, wanted, first)), outside)


def _without_strangers(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Among signed segments keep only what is sealed under a key that one of them uses."""
    signed = {c.epoch_ref for c in candidates if c.is_signed}
    why = "nothing says that the camera made it"
    return [
        replace(c, withheld=why) if signed and c.epoch_ref not in signed and not c.withheld else c
        for c in candidates
    ]


def _without_unsigned(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep only what the camera's signature speaks for."""
    why = "not signed by the camera, and so no evidence"
    return [c if c.is_signed or c.withheld else replace(c, withheld=why) for c in candidates]


def _without_repeats(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Of segments with one index keep the first that is signed, else the first."""
    kept: dict[tuple[bytes, int], Candidate] = {}
    for candidate in candidates:
        known = kept.get((candidate.stream_id, candidate.index))
        if candidate.withheld is None and (known is None or (candidate.is_signed and not known.is_signed)):
            kept[candidate.stream_id, candidate.index] = candidate
    why = "a repeat of a segment that is here already"
    chosen = {candidate.ordinal for candidate in kept.values()}
    return [c if c.ordinal in chosen or c.withheld else replace(c, withheld=why) for c in candidates]


def _without_splices(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Where streams are interleaved, keep the one with the most segments."""
    if not any(c.is_spliced for c in candidates):
        return list(candidates)
    sizes = Counter(c.stream_id for c in candidates if c.withheld is None)
    main = max(sizes, key=lambda stream: sizes[stream], default=b"")
    why = "of another recording, spliced in"
    return [c if c.stream_id == main or c.withheld else replace(c, withheld=why) for c in candidates]


def _without_disorder(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep segments that stand too late, unless putting all of them right would read the file too often."""
    if sum(c.is_out_of_order for c in candidates) <= MAX_STEPS_BACK:
        return list(candidates)
    why = f"out of order, as are more than {MAX_STEPS_BACK} segments"
    return [replace(c, withheld=why) if c.is_out_of_order and not c.withheld else c for c in candidates]


def _order_key(candidates: Sequence[Candidate]) -> SortKey:
    first_seen: dict[bytes, int] = {}
    for candidate in candidates:
        first_seen.setdefault(candidate.stream_id, candidate.ordinal)
    return SortKey(first_seen)


class SortKey:
    """Streams in the order of their first appearance, segments by index within them."""

    def __init__(self, first_seen: dict[bytes, int]) -> None:
        self._first_seen = first_seen

    def __call__(self, candidate: Candidate) -> tuple[int, int, int]:
        """Return what to sort by."""
        return self._first_seen[candidate.stream_id], candidate.index, candidate.ordinal


def follows(later: Candidate, earlier: Candidate | None) -> bool:
    """Say whether ``later`` is the segment right after ``earlier``."""
    return (
        earlier is not None
        and (later.stream_id, later.index) == (earlier.stream_id, earlier.index + 1)
    )  # fmt: skip


def _end_of(usable: Sequence[Candidate], place: int) -> int:
    """Return where a segment ends: where the next one starts, if it is here."""
    candidate = usable[place]
    if place + 1 < len(usable) and follows(usable[place + 1], candidate):
        return max(usable[place + 1].start_us, candidate.end_us + 1)
    return candidate.end_us + 1


def _overlaps(candidate: Candidate, end_us: int, asked: tuple[int | None, int | None]) -> bool:
    start, end = asked
    return (start is None or end_us > start) and (end is None or candidate.start_us < end)


def _back_to_key(usable: Sequence[Candidate], place: int) -> int:
    """Return the nearest place from which decoding can start, if the segments before are here."""
    start = place
    while not usable[start].starts_with_key:
        if start == 0 or not follows(usable[start], usable[start - 1]):
            return place
        start -= 1
    return start


def _notes(
    asked: tuple[int | None, int | None], usable: Sequence[Candidate], wanted: Sequence[int], first: int
) -> Iterable[str]:
    if not wanted:
        return
    if asked != (None, None):
        yield "cut on segment borders: the output holds every segment that the range touches"
    if first != wanted[0]:
        yield (
            f"starts {wanted[0] - first} segments early, with {usable[first].name}: "
            "the original has no key frame nearer to the range"
        )
