"""Does to one recording of a case what its job says.

Everything here can be done in any process on any machine that sees the case's folder. Both steps are
finished by writing their state, so that a run which was cut short is gone on with: what is finished,
unchanged and of the same job is not done again.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from base.errors import AuthenticationFailed, KeyUnavailable, MediaError, OutsideGrant, VeilError
from forensics.canonical import JsonObject
from forensics.case_files import CaseFolder, Step, acquire, describe
from forensics.case_job import FAILURE, INTEGRITY, KEY, Acquired, CaseJob, ItemResult
from forensics.decode import DecodeOptions, decode, report_path, tiles_path
from forensics.decode_report import DecodeReport
from forensics.input_file import Advance
from forensics.ledger import Ledger
from forensics.opening import Purpose
from forensics.plan import OutsideRange
from forensics.report import SegmentRow, VerificationReport
from forensics.restored import refuse_restored
from forensics.selection import iso_time, parse_range
from forensics.verify_file import verify
from keys.source import KeySource


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
    except (VeilError, OSError) as error:
        return _unopened(job, error)
    folder.save_state(f"{job.stem}.done", {"job": job.fingerprint, "result": result.as_json()})
    return result


_CODES = ((KeyUnavailable, KEY), (AuthenticationFailed, INTEGRITY))


def _unopened(job: CaseJob, error: Exception) -> ItemResult:
    code = next((code for kind, code in _CODES if isinstance(error, kind)), FAILURE)
    has_range = job.start is not None or job.end is not None  # without one the grant says what is asked for
    if isinstance(error, OutsideRange) or (isinstance(error, OutsideGrant) and not has_range):
        return ItemResult(job.stem, code, is_outside=True)
    return _failed(job, code, error)


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
            tiles=True,  # of recordings sealed in regions: the video is composed, and this is what was sealed
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
            regions=_regions(report),
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
        tiles = (result.regions or {}).get("tiles")
        if isinstance(tiles, dict):
            path = tiles_path(self._folder.path / "video" / (stem + self._job.suffix))
            files[self._folder.relative(path)] = tiles["sha256"]
            detail = "what the camera sealed, region by region"
            steps.append(Step.now("opened", self._folder.relative(path), str(tiles["sha256"]), detail))
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


def _regions(report: DecodeReport) -> JsonObject | None:
    if report.regions is None:
        return None
    document = report.regions.as_json()
    return {
        "text": report.regions.text().strip().removeprefix("regions").strip(),
        "pictures": document["pictures"],
        "tiles": document["tiles"],
    }


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
