"""Checks a segment against the camera's signature: no decryption key, no I/O; results are values.

The signature lists, for every picture of the segment in order, the digest of the picture and the
digest of its sealed chunks. So a picture that is listed and not here is a loss, and one that is
here and differs, or is not listed, or stands elsewhere, is tampering. The header's digest is signed
as well; through it the camera, the parameter sets and the segment before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from base.errors import AuthenticationFailed, FormatError, UnknownVersion
from codec.chain import extend_chain, place_segment
from codec.chunks import sealed_bodies
from codec.digests import chunk_digest, header_digest, parameter_digest, unit_digest
from codec.evidence import (
    Chain,
    Finding,
    LastSegment,
    Letter,
    Reason,
    SegmentEvidence,
    Verdict,
    Weight,
    verdict_of,
)
from codec.limits import DEFAULT_LIMITS, Limits
from codec.nal import NalType, nal_type
from codec.records import ZERO_DIGEST, FrameRecord, SegmentHeader, SignatureRecord, end_message
from codec.segments import SegmentKey, SegmentView, ViewedUnit
from keys import CameraPublic

__all__ = [
    "Chain",
    "Finding",
    "Letter",
    "Reason",
    "SegmentEvidence",
    "Verdict",
    "Weight",
    "check_segment",
    "verdict_of",
]


def check_segment(
    view: SegmentView,
    camera: CameraPublic | None,
    previous: SegmentEvidence | None = None,
    *,
    parameter_sets: Sequence[bytes] = (),
    may_be_cut: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> SegmentEvidence:
    """Evidence for one segment; raises nothing for damaged content.

    Args:
        view: from `codec.segments.read_segments`.
        camera: whose signature is expected; None: only what contradicts itself is found.
        previous: evidence for the segment read before this one; None for the first.
        parameter_sets: SPS and PPS that the container keeps outside of the access units.
        may_be_cut: the input's format does not tell whether its last unit is whole, as TS and raw H.264 do
            not. If that unit differs, it counts as lost.
        limits: what to accept.
    """
    chain = Chain() if previous is None else previous.chain
    may_be_cut = may_be_cut and view.ends_input
    if view.key is None:
        return _without_key(view, chain, may_be_cut=may_be_cut)
    return _Check(view, view.key, camera, limits, may_be_cut=may_be_cut).run(chain, parameter_sets)


def _without_key(view: SegmentView, chain: Chain, *, may_be_cut: bool) -> SegmentEvidence:
    problems = [viewed.problem for viewed in view.units if viewed.problem is not None]
    findings = tuple(Finding(_problem_reason(problem), str(problem)) for problem in problems[:1])
    letters = "".join(_letter_without_frame(viewed).value for viewed in view.units)
    if problems and may_be_cut and len(view.units) == 1:
        findings = (Finding(Reason.UNITS_MISSING, _CUT),)
        letters = Letter.MISSING.value
    findings = findings or (Finding(Reason.UNSIGNED, f"{len(view.units)} pictures"),)
    return SegmentEvidence(
        verdict=verdict_of(findings),
        letters=letters,
        findings=findings,
        stream_id=None,
        segment_index=None,
        camera_id=None,
        epoch_id=None,
        camera_verified=False,
        start_us=None,
        end_us=None,
        num_signed=None,
        num_present=0,
        signature_digest=None,
        chain=chain,
    )


def _problem_reason(problem: FormatError) -> Reason:
    return Reason.NEWER_FORMAT if isinstance(problem, UnknownVersion) else Reason.META_DAMAGED


def _letter_without_frame(viewed: ViewedUnit) -> Letter:
    if viewed.problem is None:
        return Letter.NO_DATA
    return Letter.UNVERIFIABLE if isinstance(viewed.problem, UnknownVersion) else Letter.TAMPERED


_CUT = "the input ends within its last picture"


@dataclass(slots=True)
class _Placed:
    """A unit with its result so far."""

    viewed: ViewedUnit
    frame: FrameRecord | None  # None: not of this segment
    letter: Letter


class _Check:
    """The state of one check; `run` goes through it top to bottom."""

    def __init__(
        self,
        view: SegmentView,
        key: SegmentKey,
        camera: CameraPublic | None,
        limits: Limits,
        *,
        may_be_cut: bool,
    ) -> None:
        self._view = view
        self._key = key
        self._camera = camera
        self._limits = limits
        self._findings: list[Finding] = []
        self._header: SegmentHeader | None = None
        self._signature: SignatureRecord | None = None
        self._signature_holds = False
        self._ends_stream = False
        self._cut = view.units[-1] if may_be_cut else None
        self._placed = [
            _Placed(viewed, viewed.frame if viewed.key == key else None, Letter.UNVERIFIABLE)
            for viewed in view.units
        ]

    def run(self, chain: Chain, parameter_sets: Sequence[bytes]) -> SegmentEvidence:
        self._read_header()
        self._read_signature()
        self._check_header()
        self._check_units()
        self._check_order()
        self._check_strangers()
        self._check_parameter_sets(parameter_sets)
        times = [placed.frame.time_us for placed in self._placed if placed.frame is not None]
        start_us, end_us = min(times, default=None), max(times, default=None)
        self._findings += place_segment(
            chain, self._key, self._header, start_us, is_verified=self._signature_holds
        )
        letters = self._letters()
        findings = tuple(self._findings)
        digest = self._signature.digest if self._signature is not None and self._is_trusted() else None
        last = None
        if digest is not None and end_us is not None:
            last = LastSegment(self._key.segment_index, digest, end_us, self._ends_stream)
        return SegmentEvidence(
            verdict=verdict_of(findings),
            letters=letters,
            findings=findings,
            stream_id=self._key.stream_id,
            segment_index=self._key.segment_index,
            camera_id=self._header.camera_id if self._header else None,
            epoch_id=self._header.epoch_id if self._header else None,
            camera_verified=self._signature_holds,
            start_us=start_us,
            end_us=end_us,
            num_signed=len(self._signature.units) if self._signature else None,
            num_present=len({placed.frame.frame_index for placed in self._placed if placed.frame}),
            signature_digest=digest,
            chain=extend_chain(chain, self._key, last, self._limits),
            ends_stream=self._ends_stream,
        )

    def _find(self, reason: Reason, detail: str = "", frame_index: int | None = None) -> None:
        self._findings.append(Finding(reason, detail, frame_index))

    def _is_trusted(self) -> bool:
        """Whether the signature may be used: valid, or consistent where there is no key to check it."""
        return self._signature_holds or self._camera is None

    def _read_header(self) -> None:
        try:
            self._header = self._view.header(self._limits)
        except UnknownVersion as error:
            self._find(Reason.NEWER_FORMAT, str(error), 0)
        except FormatError as error:
            self._find(Reason.HEADER_CHANGED, str(error), 0)
            self._mark_first()

    def _read_signature(self) -> None:
        """Find the SIGNATURE record; it counts in the frame with the highest index that has one."""
        carriers = [placed for placed in self._placed if placed.frame and _signature_body(placed.viewed)]
        if not carriers:
            self._find(Reason.SIGNATURE_MISSING, "the segment's last picture is not here")
            return
        carrier = max(carriers, key=lambda placed: placed.frame.frame_index if placed.frame else -1)
        try:
            signature = SignatureRecord.parse(_signature_body(carrier.viewed), self._limits)
            self._verify(signature, carrier)
            self._check_end_mark(signature, carrier)
        except (FormatError, AuthenticationFailed) as error:
            self._find(Reason.SIGNATURE_INVALID, str(error))
            carrier.letter = Letter.TAMPERED

    def _verify(self, signature: SignatureRecord, carrier: _Placed) -> None:
        place = (signature.segment_index, len(signature.units) - 1)
        frame = carrier.frame
        if frame is None or place != (self._key.segment_index, frame.frame_index):
            message = f"it is that of segment {place[0]} with {place[1] + 1} pictures"
            raise AuthenticationFailed(message)
        if self._camera is None:
            self._find(Reason.NO_CAMERA_KEY)
        elif self._header is not None and self._header.camera_id != self._camera.camera_id:
            detail = f"{self._header.camera_id.hex()}, expected {self._camera.camera_id.hex()}"
            self._find(Reason.WRONG_CAMERA, detail)
        else:
            self._camera.verify(signature.signature, signature.message)
            self._signature_holds = True
        self._signature = signature

    def _check_end_mark(self, signature: SignatureRecord, carrier: _Placed) -> None:
        """The mark of a stream's last segment; it counts beside a signature that holds."""
        mark = carrier.viewed.meta.end_mark if carrier.viewed.meta is not None else None
        if mark is None or self._camera is None or not self._signature_holds:
            return
        try:
            self._camera.verify(mark, end_message(*self._key, signature.digest))
        except AuthenticationFailed as error:
            index = carrier.frame.frame_index if carrier.frame else None
            self._find(Reason.END_MARK_INVALID, str(error), index)
            carrier.letter = Letter.TAMPERED
        else:
            self._ends_stream = True

    def _check_header(self) -> None:
        body = self._view.header_body
        if body is not None:
            if self._signature is not None and header_digest(body) != self._signature.header_digest:
                self._find(Reason.HEADER_CHANGED, "its digest is not the signed one", 0)
                self._mark_first()
        elif all(placed.frame is None or placed.frame.frame_index for placed in self._placed):
            self._find(Reason.HEADER_MISSING, "the segment's first picture is not here")
        elif self._signature is not None:
            self._find(Reason.HEADER_CHANGED, "removed", 0)
            self._mark_first()

    def _mark_first(self) -> None:
        for placed in self._placed:
            if placed.frame and placed.frame.frame_index == 0:
                placed.letter = Letter.TAMPERED

    def _check_units(self) -> None:
        """Compare every unit of this segment with what the signature lists."""
        if self._signature is None:
            return
        good = Letter.AUTHENTIC if self._signature_holds else Letter.UNVERIFIABLE
        for placed in self._placed:
            if placed.frame is None:
                continue
            letter = self._check_unit(placed.frame, placed.viewed, self._signature)
            if placed.letter is not Letter.TAMPERED:
                placed.letter = good if letter is Letter.AUTHENTIC else letter
        stripped = sum(1 for placed in self._placed if placed.letter is Letter.SEALED_GONE)
        if stripped:
            self._find(Reason.SEALED_STRIPPED, f"from {stripped} pictures")
        present = {placed.frame.frame_index for placed in self._placed if placed.frame}
        missing = [index for index in range(len(self._signature.units)) if index not in present]
        if missing:
            self._find(Reason.UNITS_MISSING, f"{len(missing)} of {len(self._signature.units)}", missing[0])

    def _check_unit(self, frame: FrameRecord, viewed: ViewedUnit, signature: SignatureRecord) -> Letter:
        index = frame.frame_index
        if index >= len(signature.units):
            self._find(Reason.UNIT_INSERTED, f"the segment has {len(signature.units)} pictures", index)
            return Letter.TAMPERED
        signed = signature.units[index]
        if unit_digest(bytes(frame), viewed.unit) != signed.picture:
            is_cut = viewed is self._cut
            reason = Reason.UNITS_MISSING if is_cut else Reason.PICTURE_CHANGED
            self._find(reason, _CUT if is_cut else "", index)
            return Letter.MISSING if is_cut else Letter.TAMPERED
        return self._check_chunks(frame, viewed, signed.chunks)

    def _check_chunks(self, frame: FrameRecord, viewed: ViewedUnit, signed: bytes) -> Letter:
        index = frame.frame_index
        try:
            bodies = sealed_bodies(viewed.unit, self._limits)
        except FormatError as error:
            self._find(Reason.CHUNKS_CHANGED, str(error), index)
            return Letter.TAMPERED
        if chunk_digest(bodies) == signed:
            return Letter.AUTHENTIC
        if signed != ZERO_DIGEST and len(bodies) < frame.num_chunks:
            return Letter.SEALED_GONE
        self._find(Reason.CHUNKS_CHANGED, "", index)
        return Letter.TAMPERED

    def _check_order(self) -> None:
        """Flag every unit of this segment that another one of it should have come before, or after.

        Units that were changed are left out: what they claim as their index would accuse others.
        """
        own = [placed for placed in self._placed if placed.frame and placed.letter is not Letter.TAMPERED]
        indices = [placed.frame.frame_index for placed in own if placed.frame]
        lowest_from_here = list(accumulate(reversed(indices), min))[::-1]
        highest, seen = -1, set[int]()
        for placed, index, lowest in zip(own, indices, lowest_from_here, strict=True):
            if index in seen:
                self._find(Reason.UNIT_REPEATED, "", index)
                placed.letter = Letter.TAMPERED
            elif index < highest or index > lowest:
                self._find(Reason.UNITS_REORDERED, "", index)
                placed.letter = Letter.TAMPERED
            seen.add(index)
            highest = max(highest, index)

    def _check_strangers(self) -> None:
        """Judge units that do not name this segment: inside a signed one they have no business."""
        for placed in self._placed:
            if placed.frame is not None:
                continue
            problem = placed.viewed.problem
            if placed.viewed is self._cut and placed.viewed.frame is None:
                self._find(Reason.UNITS_MISSING, _CUT)
                placed.letter = Letter.MISSING
            elif problem is not None:
                self._find(_problem_reason(problem), str(problem))
                placed.letter = _letter_without_frame(placed.viewed)
            elif placed.viewed.frame is not None or self._signature is not None:
                other = placed.viewed.frame
                detail = f"of segment {other.segment_index}" if other else "without veilcam data"
                self._find(Reason.UNIT_INSERTED, detail)
                placed.letter = Letter.TAMPERED
            else:
                placed.letter = Letter.NO_DATA

    def _check_parameter_sets(self, outside: Sequence[bytes]) -> None:
        """Compare SPS and PPS with the header's digest; behind the first picture they may only repeat."""
        if self._header is None:
            return
        allowed: set[bytes] = set()
        for placed in self._placed:
            if placed.frame is None:
                continue
            inside = placed.viewed.unit.parameter_sets()
            is_first = placed.frame.frame_index == 0
            if set(inside) <= allowed and not is_first:
                continue
            sets = _completed(inside, outside)
            if not sets:
                self._find(Reason.PARAMETER_SETS_UNSEEN, "neither in the stream nor in the container")
            elif parameter_digest(sets) == self._header.parameter_digest:
                allowed = set(sets)
            else:
                self._find(Reason.PARAMETER_SETS_CHANGED, "", placed.frame.frame_index)
                placed.letter = Letter.TAMPERED

    def _letters(self) -> str:
        """One letter per picture; an unsigned stranger stands in for the missing picture it sits upon."""
        count = len(self._signature.units) if self._signature is not None else 0
        present = {placed.frame.frame_index for placed in self._placed if placed.frame}
        missing = [index for index in range(count) if index not in present]
        letters: list[str] = []
        strangers = 0
        for placed in self._placed:
            if placed.frame is None:
                strangers += 1
            else:
                gone = sum(1 for index in missing if index < placed.frame.frame_index)
                missing = missing[gone:]
                letters.append(Letter.MISSING.value * max(0, gone - strangers))
                strangers = 0
            letters.append(placed.letter.value)
        return "".join(letters) + Letter.MISSING.value * max(0, len(missing) - strangers)


def _signature_body(viewed: ViewedUnit) -> bytes:
    return (viewed.meta.signature if viewed.meta is not None else None) or b""


def _completed(inside: Sequence[bytes], outside: Sequence[bytes]) -> tuple[bytes, ...]:
    """Parameter sets of a unit; those of a type that it has not are taken from the container."""
    types = {nal_type(nal) for nal in inside}
    if {NalType.SPS, NalType.PPS} <= types:
        return tuple(inside)
    return (*inside, *(nal for nal in outside if nal_type(nal) not in types))
