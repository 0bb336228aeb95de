"""Verify a recording: needs the camera's public key, and no key that opens anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from base.errors import FormatError
from codec.container import ReadProblem
from codec.evidence import SegmentEvidence
from codec.limits import DEFAULT_LIMITS, Limits
from codec.segments import SegmentView, read_segments
from codec.verify import check_segment
from forensics.input_file import Advance, Evidence, EvidenceUnits
from forensics.report import SegmentRow, VerificationReport, settled
from forensics.times import ContainerTimes, TimesNote
from forensics.verdict import RollUp
from keys import CameraPublic

_MAX_DAMAGE = 50


def verify(
    path: Path,
    camera: CameraPublic | None,
    *,
    is_excerpt: bool = True,
    may_go_on: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    advance: Advance | None = None,
) -> VerificationReport:
    """Check every segment of a recording against the camera's signatures.

    Args:
        path: an MP4, MOV, MKV, TS, FLV, AVI or raw H.264 file.
        camera: whose signatures to expect. None: contradictions are found, nothing is proven,
            and the verdict is UNVERIFIABLE at best.
        is_excerpt: the recording may start within its stream; if False, that is a gap.
        may_go_on: the recording may lack the camera's end mark; if False, that is a gap.
        limits: bounds on what is accepted.
        advance: told how far it is.

    Raises:
        MediaError: not a video that we read, or it changed meanwhile.
    """
    with Evidence(path) as evidence:
        described = evidence.describe()
        rows: list[SegmentRow] = []
        roll_up = RollUp(has_camera_key=camera is not None, is_excerpt=is_excerpt, may_go_on=may_go_on)
        with evidence.units(limits) as units:
            for checked in examine(units, camera, limits):
                rows.append(checked.row())
                roll_up.add(checked.evidence, starts_with_key=checked.starts_with_key, times=checked.times)
                if advance is not None:
                    advance(units.share)
            damage = tuple(describe_damage(problem) for problem in units.reader.problems[:_MAX_DAMAGE])
            for kind in units.reader.other_tracks:
                roll_up.add_track(kind)
        evidence.check_unchanged()
    for text in damage:
        roll_up.add_damage(text)
    camera_id = camera.camera_id.hex() if camera is not None else None
    conclusion = roll_up.conclude()
    return VerificationReport(described, camera_id, conclusion, settled(rows, conclusion), damage)


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """A segment with its evidence.

    Attributes:
        ordinal: its place in the file.
        times: what is odd about when the container shows its pictures.
    """

    ordinal: int
    view: SegmentView
    evidence: SegmentEvidence
    times: tuple[TimesNote, ...] = ()

    @property
    def starts_with_key(self) -> bool:
        """The first picture here is a key frame."""
        return self.view.units[0].unit.is_keyframe

    def row(self) -> SegmentRow:
        """For the tables of a report."""
        return SegmentRow.of(self.ordinal, self.evidence, self.times, self._previous_digest())

    def _previous_digest(self) -> bytes | None:
        try:
            header = self.view.header()
        except FormatError:
            return None
        return None if header is None else header.previous_digest


def examine(
    units: EvidenceUnits, camera: CameraPublic | None, limits: Limits = DEFAULT_LIMITS
) -> Iterator[CheckedSegment]:
    """Yield the segments in the order of the file, each checked; holds one at a time."""
    previous: SegmentEvidence | None = None
    reader = units.reader
    sets = reader.track.parameter_sets
    times = ContainerTimes(reader.track.container)
    for ordinal, view in enumerate(read_segments(reader, limits)):
        previous = check_segment(
            view,
            camera,
            previous,
            parameter_sets=sets,
            may_be_cut=reader.last_may_be_cut,
            limits=limits,
        )
        yield CheckedSegment(ordinal, view, previous, times.check(view))


def describe_damage(problem: ReadProblem) -> str:
    """Say where a file could not be read; the time is the file's own."""
    if problem.at_us is None:
        return f"before the first picture: {problem.reason}"
    return f"at {problem.at_us / 1e6:.3f} s: {problem.reason}"
