"""What a check found, as values: verdicts, reasons, letters. Nothing here is raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType


class Verdict(Enum):
    """The outcome for one segment, or for all of them."""

    AUTHENTIC = "authentic"  # everything that the camera signed is here and verifies
    GAPS = "gaps"  # what is here verifies; some is missing
    TAMPERED = "tampered"  # something is here that the camera did not make, or not there, or not so
    UNSIGNED = "unsigned"  # no data of ours: nothing to check
    UNVERIFIABLE = "unverifiable"  # signature lost, camera key not given, or a newer format


class Weight(IntEnum):
    """How much a reason weighs; the heaviest decides the verdict."""

    NOTE = 0
    LOSS = 1
    UNVERIFIABLE = 2
    UNSIGNED = 3
    TAMPERING = 4


class Reason(Enum):
    """Why; each belongs to one weight."""

    PICTURE_CHANGED = "picture changed"
    CHUNKS_CHANGED = "sealed chunks changed"
    HEADER_CHANGED = "header changed"
    PARAMETER_SETS_CHANGED = "parameter sets changed"
    SIGNATURE_INVALID = "signature does not verify"
    META_DAMAGED = "veilcam data damaged"
    UNIT_INSERTED = "picture inserted"
    UNIT_REPEATED = "picture repeated"
    UNITS_REORDERED = "pictures reordered"
    WRONG_CAMERA = "signed by another camera"
    SEGMENT_REPEATED = "segment repeated"
    SEGMENT_OUT_OF_ORDER = "segment out of order"
    CHAIN_BROKEN = "does not follow the segment before"
    SPLICED = "spliced from another stream"
    END_MARK_INVALID = "end mark does not verify"
    BEHIND_END = "follows the end of its stream"

    UNSIGNED = "no veilcam data"

    SIGNATURE_MISSING = "signature missing"
    NO_CAMERA_KEY = "no camera key given"
    NEWER_FORMAT = "newer format"

    UNITS_MISSING = "pictures missing"
    SEGMENTS_MISSING = "segments missing"

    HEADER_MISSING = "header missing"
    SEALED_STRIPPED = "sealed layer stripped"
    PARAMETER_SETS_UNSEEN = "parameter sets not seen"
    STARTS_LATE = "starts within the stream"
    NEW_STREAM = "another stream starts"
    CHAIN_UNKNOWN = "segment before not verified"

    @property
    def weight(self) -> Weight:
        """What the reason means for the verdict."""
        return _WEIGHTS.get(self, Weight.TAMPERING)


_WEIGHTS = {
    Reason.UNSIGNED: Weight.UNSIGNED,
    Reason.SIGNATURE_MISSING: Weight.UNVERIFIABLE,
    Reason.NO_CAMERA_KEY: Weight.UNVERIFIABLE,
    Reason.NEWER_FORMAT: Weight.UNVERIFIABLE,
    Reason.UNITS_MISSING: Weight.LOSS,
    Reason.SEGMENTS_MISSING: Weight.LOSS,
    Reason.HEADER_MISSING: Weight.NOTE,
    Reason.SEALED_STRIPPED: Weight.NOTE,
    Reason.PARAMETER_SETS_UNSEEN: Weight.NOTE,
    Reason.STARTS_LATE: Weight.NOTE,
    Reason.NEW_STREAM: Weight.NOTE,
    Reason.CHAIN_UNKNOWN: Weight.NOTE,
}

_VERDICTS = {
    Weight.NOTE: Verdict.AUTHENTIC,
    Weight.LOSS: Verdict.GAPS,
    Weight.UNVERIFIABLE: Verdict.UNVERIFIABLE,
    Weight.UNSIGNED: Verdict.UNSIGNED,
    Weight.TAMPERING: Verdict.TAMPERED,
}


class Letter(Enum):
    """One access unit's result; a segment's letters are a string of them, in the order of the pictures."""

    AUTHENTIC = "A"
    SEALED_GONE = "S"  # the picture is authentic, its sealed chunks are gone
    TAMPERED = "T"
    MISSING = "M"  # signed, not here
    UNVERIFIABLE = "U"  # here, but nothing valid signs it
    NO_DATA = "N"  # a picture without data of ours


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason, with what it is about.

    Attributes:
        frame_index: within the segment; None if it is about all of it.
    """

    reason: Reason
    detail: str = ""
    frame_index: int | None = None

    def __str__(self) -> str:
        place = "" if self.frame_index is None else f"frame {self.frame_index}: "
        return f"{place}{self.reason.value}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class LastSegment:
    """The newest verified segment of one stream."""

    segment_index: int
    signature_digest: bytes
    end_us: int
    ends_stream: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """What is known of the segments before, so that the next one can be placed.

    Attributes:
        streams: newest verified segment by stream id, in the order last seen.
        previous_key: stream id and segment index of the segment read just before, verified or not.
    """

    streams: Mapping[bytes, LastSegment] = field(default_factory=lambda: MappingProxyType({}))
    previous_key: tuple[bytes, int] | None = None


@dataclass(frozen=True, slots=True)
class SegmentEvidence:
    """The result for one segment.

    Attributes:
        letters: one per picture, missing ones included, see `Letter`.
        stream_id: None, as segment_index, if no unit names a segment.
        camera_id: as the header claims, as epoch_id; None if the header is missing.
        camera_verified: the signature is valid under the camera key given.
        start_us: capture time of the first picture present, Unix microseconds, as end_us of the last.
        num_signed: pictures that the signature lists; None without one.
        num_present: pictures of this segment that are here, repeated ones counted once.
        signature_digest: what the next segment has to repeat.
        ends_stream: the camera signed that nothing follows; without it nobody can tell.
        chain: hand the evidence to the next check.
    """

    verdict: Verdict
    letters: str
    findings: tuple[Finding, ...]
    stream_id: bytes | None
    segment_index: int | None
    camera_id: bytes | None
    epoch_id: bytes | None
    camera_verified: bool
    start_us: int | None
    end_us: int | None
    num_signed: int | None
    num_present: int
    signature_digest: bytes | None
    chain: Chain
    ends_stream: bool = False

    @property
    def reasons(self) -> frozenset[Reason]:
        """The reasons without their details."""
        return frozenset(finding.reason for finding in self.findings)


def verdict_of(findings: tuple[Finding, ...]) -> Verdict:
    """The verdict that the heaviest finding demands."""
    return _VERDICTS[max((finding.reason.weight for finding in findings), default=Weight.NOTE)]
