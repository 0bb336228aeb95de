"""Reports: what was found, as values, as JSON, and as plain text for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from base.version import __version__
from codec.evidence import Letter, Reason, SegmentEvidence, Weight
from forensics.canonical import MAX_INTEGER, JsonObject, JsonValue
from forensics.selection import iso_time
from forensics.times import TimesNote
from forensics.verdict import Conclusion, Verdict

REPORT_VERSION = 1
TOOL = f"veilcam {__version__}"
_MAX_REASONS = 50
_MAX_TEXT_ROWS = 12
_INTEGRITY_EXIT = 3

LETTERS = {
    Letter.AUTHENTIC: "authentic",
    Letter.SEALED_GONE: "authentic, its sealed data is gone",
    Letter.TAMPERED: "tampered",
    Letter.MISSING: "missing",
    Letter.UNVERIFIABLE: "here, not proven",
    Letter.NO_DATA: "no veilcam data",
}


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file that was read or written. SHA-256 over all of it."""

    name: str
    num_bytes: int
    sha256: str

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {"name": self.name, "bytes": self.num_bytes, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """The evidence for one segment, for tables.

    Attributes:
        ordinal: place in the file, from 0.
        frames_expected: pictures that the signature lists; None without a usable one.
        frames_received: pictures of the segment that are here.
        letters: one per picture, see `codec.evidence.Letter`.
        reasons: at most 50 sentences; `num_reasons` counts all.
        times: what is odd about the times at which the container shows the pictures; TAMPERED if that is
            their order.
        digest: what the next segment's header has to name, where the camera's signature holds; hexadecimal.
        previous: what this one's header names.
        is_stranger: nothing is wrong but that it is another camera's.
    """

    ordinal: int
    stream_id: str | None
    index: int | None
    camera_id: str | None
    epoch_id: str | None
    start_us: int | None
    end_us: int | None
    frames_expected: int | None
    frames_received: int
    letters: str
    verdict: Verdict
    reasons: tuple[str, ...]
    num_reasons: int
    times: tuple[str, ...] = ()
    digest: str | None = None
    previous: str | None = None
    is_stranger: bool = False

    @classmethod
    def of(
        cls,
        ordinal: int,
        evidence: SegmentEvidence,
        times: Sequence[TimesNote] = (),
        previous_digest: bytes | None = None,
    ) -> SegmentRow:
        """Make the row for one segment's evidence; ``previous_digest`` as its header says."""
        is_reordered = any(note.is_reordered for note in times)
        tampering = {reason for reason in evidence.reasons if reason.weight is Weight.TAMPERING}
        return cls(
            ordinal=ordinal,
            stream_id=_hex(evidence.stream_id),
            index=evidence.segment_index,
            camera_id=_hex(evidence.camera_id),
            epoch_id=_hex(evidence.epoch_id),
            start_us=evidence.start_us,
            end_us=evidence.end_us,
            frames_expected=evidence.num_signed,
            frames_received=evidence.num_present,
            letters=evidence.letters,
            verdict=Verdict.TAMPERED if is_reordered else evidence.verdict,
            reasons=tuple(str(finding) for finding in evidence.findings[:_MAX_REASONS]),
            num_reasons=len(evidence.findings),
            times=tuple(note.text for note in times),
            digest=_hex(evidence.signature_digest) if evidence.camera_verified else None,
            previous=_hex(previous_digest),
            is_stranger=not is_reordered and tampering == {Reason.WRONG_CAMERA},
        )

    @property
    def name(self) -> str:
        """What people call it."""
        return f"part {self.ordinal + 1}" if self.index is None else f"segment {self.index}"

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "ordinal": self.ordinal,
            "stream": self.stream_id,
            "index": json_integer(self.index),
            "camera": self.camera_id,
            "epoch": self.epoch_id,
            "start": json_time(self.start_us),
            "end": json_time(self.end_us),
            "frames_expected": self.frames_expected,
            "frames_received": self.frames_received,
            "letters": self.letters,
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "num_reasons": self.num_reasons,
            "times": list(self.times),
            "digest": self.digest,
            "previous": self.previous,
        }


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all segments. ``frames`` counts pictures by letter."""

    segments: int
    segments_by_verdict: dict[Verdict, int]
    frames: dict[Letter, int]

    @classmethod
    def of(cls, rows: tuple[SegmentRow, ...]) -> Totals:
        """Add up."""
        verdicts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
        frames = {letter: sum(row.letters.count(letter.value) for row in rows) for letter in Letter}
        return cls(len(rows), verdicts, frames)

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "segments": self.segments,
            "segments_by_verdict": {verdict.value: n for verdict, n in self.segments_by_verdict.items()},
            "frames": {letter.name.lower(): n for letter, n in self.frames.items()},
        }


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """What `forensics.verify_file.verify` found.

    Attributes:
        camera_id: whose signatures were expected, in hexadecimal; None if no key was given.
        damage: where the file itself could not be read.
        certificate: of the camera, if one was given (`forensics.camera_trust`).
    """

    input: FileDigest
    camera_id: str | None
    conclusion: Conclusion
    segments: tuple[SegmentRow, ...]
    damage: tuple[str, ...] = ()
    certificate: JsonObject | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole recording."""
        return self.conclusion.verdict

    @property
    def exit_code(self) -> int:
        """0 for AUTHENTIC, 3 for everything else."""
        return 0 if self.verdict is Verdict.AUTHENTIC else _INTEGRITY_EXIT

    @property
    def totals(self) -> Totals:
        """Sums over the segments."""
        return Totals.of(self.segments)

    def as_json(self) -> JsonObject:
        """Return the report as a JSON document."""
        return {
            "report": "verify",
            "v": REPORT_VERSION,
            "tool": TOOL,
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            **evidence_json(self),
        }

    def text(self) -> str:
        """Return a summary for people, several lines."""
        return "\n".join([f"{self.verdict.name}  {self.input.name}", *evidence_text(self)])


def settled(rows: Sequence[SegmentRow], conclusion: Conclusion) -> tuple[SegmentRow, ...]:
    """The rows, given the conclusion: under another camera's key nothing is proven nor tampered with."""
    if not conclusion.is_other_camera:
        return tuple(rows)
    return tuple(replace(row, verdict=Verdict.UNVERIFIABLE) if row.is_stranger else row for row in rows)


def evidence_json(report: VerificationReport) -> JsonObject:
    """Return what verifying found, for this report and for those that build on it."""
    return {
        "causes": list(report.conclusion.causes),
        "num_causes": report.conclusion.num_causes,
        "input": report.input.as_json(),
        "camera": report.camera_id,
        "has_end_mark": report.conclusion.has_end_mark,
        "certificate": report.certificate,
        "totals": report.totals.as_json(),
        "damage": list(report.damage),
        "segments": [row.as_json() for row in report.segments],
    }


def evidence_text(report: VerificationReport) -> list[str]:
    """Return what verifying found, as lines for people."""
    totals = report.totals
    lines = [f"  {cause}" for cause in report.conclusion.causes]
    if (more := report.conclusion.num_causes - len(report.conclusion.causes)) > 0:
        lines.append(f"  and {more} more")
    lines.append(f"  sha256    {report.input.sha256}")
    lines.append(f"  camera    {report.camera_id or 'no key given: signatures were not checked'}")
    lines += certified_lines(report.certificate)
    lines.append(f"  segments  {totals.segments}{_span(report.segments)}")
    lines.append(f"  end       {_end(report)}")
    counts = [f"{n} {LETTERS[letter]}" for letter, n in totals.frames.items() if n]
    lines.append(f"  pictures  {'; '.join(counts) or 'none'}")
    lines += [f"  damage    {text}" for text in report.damage[:_MAX_TEXT_ROWS]]
    timed = [f"  times     {row.name}: {text}" for row in report.segments for text in row.times]
    lines += timed[:_MAX_TEXT_ROWS]
    if len(timed) > _MAX_TEXT_ROWS:
        lines.append(f"  and {len(timed) - _MAX_TEXT_ROWS} more odd times; all are in the JSON report")
    has_text = (row for row in report.segments if row.reasons or row.times)
    odd = [row for row in has_text if row.verdict is not Verdict.AUTHENTIC]
    lines += [f"  {row.name:<12}{row.verdict.name:<13}{row.letters[:60]}" for row in odd[:_MAX_TEXT_ROWS]]
    if len(odd) > _MAX_TEXT_ROWS:
        lines.append(f"  and {len(odd) - _MAX_TEXT_ROWS} more segments; all are in the JSON report")
    return lines


def certified_lines(certificate: JsonObject | None) -> list[str]:
    """Who vouches for the camera, for people; nothing without a certificate."""
    if certificate is None:
        return []
    issuers, notes = (certificate.get(name) for name in ("issuers", "notes"))
    chain = [certificate["camera"], *(issuers if isinstance(issuers, list) else [])]
    lines = [f"  certified {' < '.join(map(str, chain))}"]
    return lines + [f"  note      {note}" for note in (notes if isinstance(notes, list) else [])]


def _end(report: VerificationReport) -> str:
    if report.camera_id is None:
        return "not checked: no key given"
    if report.conclusion.has_end_mark:
        return "signed: the camera stopped here"
    return "without the end mark: cut between segments, or the camera went on"


def _span(rows: tuple[SegmentRow, ...]) -> str:
    times = [(row.start_us, row.end_us) for row in rows]
    starts = [start for start, _ in times if start is not None]
    ends = [end for _, end in times if end is not None]
    return f", {iso_time(min(starts))} to {iso_time(max(ends))}" if starts and ends else ""


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def json_integer(value: int | None) -> JsonValue:
    """Return an integer that every JSON reader keeps; beyond 53 bits as text (hostile files)."""
    return value if value is None or abs(value) <= MAX_INTEGER else str(value)


def json_time(time_us: int | None) -> JsonValue:
    """Return a capture time as ISO 8601, or null."""
    return None if time_us is None else iso_time(time_us)
