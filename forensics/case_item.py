"""One recording of a case: what is to be done to it as a value, doing it, and what came out as a value.

Everything here can be done in any process on any machine that sees the case's folder: jobs and results are
JSON, keys are not among them. Both steps are finished by writing their state, so that a run which was cut
short is gone on with: what is finished, unchanged and of the same job is not done again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from base.errors import AuthenticationFailed, KeyUnavailable, MediaError, UsageError, VeilError
from base.version import __version__
from codec.muxer import MUXER_OF_SUFFIX
from forensics.canonical import JsonObject, canonical_json
from forensics.case_files import CaseFolder, Step, acquire, describe
from forensics.decode import DecodeOptions, decode, report_path
from forensics.decode_report import DecodeReport
from forensics.input_file import Advance
from forensics.ledger import Ledger
from forensics.opening import Purpose
from forensics.plan import OutsideRange
from forensics.report import SegmentRow, VerificationReport
from forensics.restored import refuse_restored
from forensics.selection import iso_time, parse_range
from forensics.verify_file import verify
from keys import CameraPublic
from keys.key_files import parse_camera_public, render_camera_public
from keys.source import KeySource

OK, FAILURE, INTEGRITY, KEY = 0, 1, 3, 4
"""What became of an item, in the numbers of the program's exit status."""

_LISTED_SEGMENTS = 40


@dataclass(frozen=True, slots=True)
class CaseJob:
    """What to do to one recording; plain values only.

    Attributes:
        source: path of the recording.
        stem: its name within the case, unique.
        camera: content of the camera's .pub file; None if it is not known who must have signed.
        start, end: as typed; None leaves that side open.
        suffix: of the video, such as ``.mkv``.
        is_evidence: take signed segments only, refuse what is labelled as restored.
        keep_native: copy the recording into the case first; otherwise it is hashed, and read where it is.
    """

    source: str
    stem: str
    camera: str | None
    start: str | None = None
    end: str | None = None
    suffix: str = ".mkv"
    reason: str = ""
    case: str = ""
    from_start: bool = False
    is_evidence: bool = False
    keep_native: bool = True
    verify_only: bool = False

    @property
    def fingerprint(self) -> str:
        """Differs as soon as something would come out differently."""
        return hashlib.sha256(canonical_json({**asdict(self), "version": __version__})).hexdigest()

    @property
    def public(self) -> CameraPublic | None:
        """The camera's verifying key."""
        return None if self.camera is None else parse_camera_public(self.camera.encode())

    @classmethod
    def make(cls, source: Path, stem: str, camera: CameraPublic | None, **options: Any) -> CaseJob:  # noqa: ANN401
        """Make a job; ``options`` are the other attributes."""
        text = None if camera is None else render_camera_public(camera).decode()
        return cls(str(source.absolute()), stem, text, **options)


@dataclass(frozen=True, slots=True)
class Acquired:
    """The recording as it was handed over."""

    name: str
    num_bytes: int
    sha256: str
    copy: str | None
    stat: tuple[int, int]
    steps: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What came of one recording; paths are relative to the case's folder.

    Attributes:
        exit_code: 0, 1 failure, 3 integrity, 4 no key.
        verdict: as the verification found; None if it did not get so far.
        is_outside: nothing of it lies in the range asked for; nothing was opened.
        first, last: stream, index and signature digest of the first and last verified segment, with the
            digest that it names as its predecessor's: from these the joints between recordings are judged.
    """

    stem: str
    exit_code: int
    verdict: str | None = None
    error: str | None = None
    camera_id: str | None = None
    input: JsonObject | None = None
    output: JsonObject | None = None
    tracks: tuple[JsonObject, ...] = ()
    span: tuple[str, str] | None = None
    num_segments: int = 0
    num_delivered: int = 0
    num_withheld: int = 0
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model_ids: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    sealed_modes: tuple[str, ...] = ()
    ledger_seq: int | None = None
    ledger_hash: str | None = None
    is_complete: bool = False
    is_resumed: bool = False
    is_outside: bool = False
    first: JsonObject | None = None
    last: JsonObject | None = None
    files: JsonObject | None = None
    steps: tuple[JsonObject, ...] = ()

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        document: JsonObject = json.loads(json.dumps(asdict(self)))
        return document

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> ItemResult:
        """Read what `as_json` wrote, by this version."""
        lists = ("tracks", "causes", "notes", "model_ids", "recipients", "sealed_modes", "steps")
        fixed = {name: tuple(value[name]) for name in lists}
        span = value["span"]
        return cls(**{**value, **fixed, "span": None if span is None else (span[0], span[1])})


def acquire_item(folder: CaseFolder, job: CaseJob, advance: Advance | None = None) -> Acquired:
    """Copy and hash the recording, unless an earlier run did and the copy is unchanged.

    Raises:
        MediaError: it is gone, cannot be read, or changes meanwhile.
    """
    if (known := _known_acquisition(folder, job)) is not None:
        return known
    source = Path(job.source)
    if job.keep_native:
        target = folder.path / "native" / (job.stem + source.suffix)
        digest, stat = acquire(source, target, advance)
        name = folder.relative(target)
        steps = (
            Step.now("acquired", job.source, digest.sha256, "read only, hashed while it was copied"),
            Step.now("copied", name, digest.sha256, "read back and compared"),
        )
        acquired = Acquired(
            digest.name, digest.num_bytes, digest.sha256, name, stat, tuple(s.as_json() for s in steps)
        )
    else:
        before = source.stat()
        digest = describe(source)
        step = Step.now("hashed", job.source, digest.sha256, "read only, not copied")
        stat = (before.st_size, before.st_mtime_ns)
        acquired = Acquired(digest.name, digest.num_bytes, digest.sha256, None, stat, (step.as_json(),))
    folder.save_state(f"{job.stem}.acquired", {"job": _native_key(job), "acquired": asdict(acquired)})
    return acquired


def _native_key(job: CaseJob) -> str:
    return f"{job.source} {job.keep_native}"


def _known_acquisition(folder: CaseFolder, job: CaseJob) -> Acquired | None:
    state = folder.state(f"{job.stem}.acquired")
    if state is None or state.get("job") != _native_key(job):
        return None
    try:
        raw = state["acquired"]
        acquired = Acquired(**{**raw, "stat": tuple(raw["stat"]), "steps": tuple(raw["steps"])})
        source = Path(job.source)
        if source.exists():  # recorders delete old files; the copy is what counts then
            now = source.stat()
            if (now.st_size, now.st_mtime_ns) != acquired.stat:
                return None
        elif acquired.copy is None:
            return None
        if acquired.copy is not None and describe(folder.path / acquired.copy).sha256 != acquired.sha256:
            return None
    except (KeyError, TypeError, OSError, VeilError):
        return None
    return acquired


def process_item(
    folder: CaseFolder, job: CaseJob, keys: KeySource | None, ledger: Ledger, advance: Advance | None = None
) -> ItemResult:
    """Verify and open one recording of the case; never raises what is about this recording alone.

    Args:
        folder: of the case.
        job: what to do; the recording has been acquired.
        keys: None for ``verify_only``.
        ledger: where the opening is written before it happens.
        advance: told how far it is.
    """
    if (known := _known_result(folder, job)) is not None:
        return known
    try:
        acquired = acquire_item(folder, job)
        result = _Work(folder, job, acquired, ledger, advance or (lambda _: None)).run(keys)
    except OutsideRange:
        return ItemResult(job.stem, OK, is_outside=True)
    except KeyUnavailable as error:
        return _failed(job, KEY, error)
    except AuthenticationFailed as error:
        return _failed(job, INTEGRITY, error)
    except (VeilError, OSError) as error:
        return _failed(job, FAILURE, error)
    folder.save_state(f"{job.stem}.done", {"job": job.fingerprint, "result": result.as_json()})
    return result


def _failed(job: CaseJob, exit_code: int, error: Exception) -> ItemResult:
    step = Step.now("not opened", job.stem, None, f"{type(error).__name__}: {error}")
    return ItemResult(job.stem, exit_code, error=str(error), steps=(step.as_json(),))


def _known_result(folder: CaseFolder, job: CaseJob) -> ItemResult | None:
    """The result of an earlier run, if it is of this job and all its files are as it left them."""
    state = folder.state(f"{job.stem}.done")
    if state is None or state.get("job") != job.fingerprint:
        return None
    try:
        result = ItemResult.of_json(state["result"])
        acquired = _known_acquisition(folder, job)
        if acquired is None or (result.input or {}).get("sha256") != acquired.sha256:
            return None
        for name, sha256 in (result.files or {}).items():
            if describe(folder.path / name).sha256 != sha256:
                return None
    except (KeyError, TypeError, ValueError, VeilError):
        return None
    return replace(result, is_resumed=True)


class _Work:
    def __init__(
        self, folder: CaseFolder, job: CaseJob, acquired: Acquired, ledger: Ledger, advance: Advance
    ) -> None:
        self._folder, self._job, self._acquired = folder, job, acquired
        self._ledger, self._advance = ledger, advance
        self._working = folder.path / acquired.copy if acquired.copy else Path(job.source)

    def run(self, keys: KeySource | None) -> ItemResult:
        if self._job.is_evidence:
            refuse_restored(self._working)
        if self._job.verify_only or keys is None:
            found = verify(
                self._working, self._job.public, is_excerpt=not self._job.from_start, advance=self._advance
            )
            return self._verified(found, ItemResult(self._job.stem, found.exit_code))
        return self._decoded(self._decode(keys))

    def _decode(self, keys: KeySource) -> DecodeReport:
        job = self._job
        out = self._folder.path / "video" / (job.stem + job.suffix)
        options = DecodeOptions(
            chosen=parse_range(job.start, job.end),
            purpose=Purpose(job.reason, job.case),
            is_excerpt=not job.from_start,
            overwrite=True,  # what is there is of another job, or incomplete
            signed_only=job.is_evidence,
        )
        return decode(
            self._working,
            out,
            keys,
            camera=job.public,
            ledger=self._ledger,
            options=options,
            advance=self._advance,
        )

    def _decoded(self, report: DecodeReport) -> ItemResult:
        rows = report.opened
        output = report.output
        result = ItemResult(
            stem=self._job.stem,
            exit_code=report.exit_code,
            output=None if output is None else output.as_json(),
            tracks=tuple(track.as_json() for track in report.tracks),
            num_delivered=sum(1 for row in rows if row.num_packets),
            num_withheld=sum(1 for row in rows if not row.num_packets),
            notes=report.notes,
            model_ids=report.model_ids,
            recipients=report.recipient_ids,
            sealed_modes=report.sealed_modes,
            ledger_seq=report.ledger_seq,
            ledger_hash=report.ledger_hash,
            is_complete=report.is_complete,
        )
        return self._verified(report.verification, result, report.text(), output_sha256=_sha256(report))

    def _verified(
        self,
        found: VerificationReport,
        result: ItemResult,
        text: str = "",
        *,
        output_sha256: str | None = None,
    ) -> ItemResult:
        if found.input.sha256 != self._acquired.sha256:
            message = f"{self._acquired.name}: is no longer what was acquired"
            raise MediaError(message)
        stem = self._job.stem
        transcript = self._folder.write(f"verification/{stem}.txt", _transcript(found, text).encode())
        files: JsonObject = {transcript.name: transcript.sha256}
        steps = [
            Step.now("verified", found.input.name, found.input.sha256, found.verdict.name),
            Step.now("written", transcript.name, transcript.sha256, "verification transcript"),
        ]
        if result.output is not None and output_sha256 is not None:
            video = self._folder.path / "video" / (stem + self._job.suffix)
            name = self._folder.relative(video)
            files[name] = output_sha256
            steps.append(Step.now("opened", name, output_sha256, f"ledger entry {result.ledger_seq}"))
        if result.ledger_seq is not None:
            path = report_path(self._folder.path / "video" / (stem + self._job.suffix))
            if path.exists():
                digest = describe(path)
                files[self._folder.relative(path)] = digest.sha256
                steps.append(Step.now("written", self._folder.relative(path), digest.sha256, "decode report"))
        return replace(
            result,
            verdict=found.verdict.value,
            camera_id=found.camera_id
            or next((row.camera_id for row in found.segments if row.camera_id), None),
            input=found.input.as_json(),
            span=_span(found.segments),
            num_segments=len(found.segments),
            causes=found.conclusion.causes,
            first=_end(found.segments, 0),
            last=_end(found.segments, -1),
            files=files,
            steps=(*self._acquired.steps, *(step.as_json() for step in steps)),
        )


def _sha256(report: DecodeReport) -> str | None:
    return None if report.output is None else report.output.sha256


def _transcript(found: VerificationReport, text: str) -> str:
    """All of the evidence: the summary, then a line for every segment."""
    lines = [text or found.text(), "", "segments, in the order of the file"]
    for row in found.segments:
        expected = "?" if row.frames_expected is None else str(row.frames_expected)
        lines.append(
            f"{row.ordinal:>6}  {row.name:<14}{row.verdict.name:<13}"
            f"{row.frames_received:>5} of {expected:>5}  {row.letters}"
        )
        lines += [f"{'':8}{text}" for text in (*row.reasons, *row.times)]
    return "\n".join(lines) + "\n"


def _span(rows: tuple[SegmentRow, ...]) -> tuple[str, str] | None:
    starts = [row.start_us for row in rows if row.start_us is not None]
    ends = [row.end_us for row in rows if row.end_us is not None]
    return (iso_time(min(starts)), iso_time(max(ends))) if starts and ends else None


def _end(rows: tuple[SegmentRow, ...], place: int) -> JsonObject | None:
    verified = [row for row in rows if row.digest is not None]
    if not verified:
        return None
    row = verified[place]
    return {
        "stream": row.stream_id,
        "index": row.index,
        "digest": row.digest,
        "previous": row.previous,
        "start_us": row.start_us,
        "end_us": row.end_us,
    }


def usable_suffix(suffix: str) -> str:
    """Check the ending for videos.

    Raises:
        UsageError: no container of that name.
    """
    ending = suffix if suffix.startswith(".") else f".{suffix}"
    if ending not in MUXER_OF_SUFFIX:
        message = f"container: expected one of {', '.join(MUXER_OF_SUFFIX)}; got {suffix}"
        raise UsageError(message)
    return ending
