"""Open whole days and many cameras into one folder that can be handed over, checked, and gone on with.

In order: every recording is copied and hashed (so that a recorder may delete its own afterwards); then each
is verified and opened, several at a time; then the reports, the list of SHA-256 sums, an entry in the ledger
with the hash of that list and, where asked for, a time stamp over it. A second run with the same arguments
goes on where the first one stopped: what is there, whole and unchanged is left alone and not opened again.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import av

from base.errors import UsageError, VeilError
from base.files import read_bounded
from codec.container import read_access_units
from codec.segments import view_unit
from forensics.canonical import JsonObject
from forensics.case_engine import Engine
from forensics.case_files import STAMP, SUMS, CaseFolder, describe
from forensics.case_html import case_html
from forensics.case_job import FAILURE, CaseJob, ItemResult, usable_suffix
from forensics.case_report import CaseReport, joints
from forensics.input_file import Advance, printable_name
from forensics.ledger import Ledger
from forensics.opening import Purpose, operator
from forensics.selection import iso_time, parse_range
from forensics.timestamp import MAX_STAMP_BYTES, Stamp, check
from keys import CameraPublic

RECORDINGS = frozenset((".mp4", ".m4v", ".mov", ".mkv", ".ts", ".flv", ".avi", ".h264"))
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MARGIN_US = 60_000_000
_PROBE_UNITS = 600
_ACQUIRE_SHARE = 0.3

Stamper = Callable[[bytes], bytes]
"""From the content of SHA256SUMS to the bytes of an RFC 3161 time-stamp response."""


@dataclass(frozen=True, slots=True)
class CaseOptions:
    """What is to be done to every recording; see `forensics.case_job.CaseJob`.

    Attributes:
        cameras: whose signatures to expect; each recording is held against the one that its header names, or,
            if it names none of them, against the first.
    """

    case: str = ""
    reason: str = ""
    start: str | None = None
    end: str | None = None
    cameras: tuple[CameraPublic, ...] = ()
    container: str = ".mkv"
    from_start: bool = False
    is_evidence: bool = False
    keep_native: bool = True
    verify_only: bool = False


def recordings_in(paths: Sequence[Path]) -> list[Path]:
    """The recordings that ``paths`` name: files as they are, folders with all recordings below them, sorted.

    Links in folders are passed over.

    Raises:
        UsageError: a path does not exist, or there is no recording at all.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = (each for each in path.rglob("*") if each.suffix.lower() in RECORDINGS)
            found += sorted(each for each in inside if _is_recording(each))
        elif path.is_file():
            found.append(path)
        else:
            message = f"{path}: no such recording"
            raise UsageError(message)
    if not found:
        message = f"no recording there; expected files that end in {', '.join(sorted(RECORDINGS))}"
        raise UsageError(message)
    return list(dict.fromkeys(found))


def _is_recording(path: Path) -> bool:
    """A file of its own: a link may point anywhere, and what it names would be copied and handed over."""
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".")


def run_case(
    recordings: Sequence[Path],
    folder_path: Path,
    engine: Engine,
    ledger: Ledger,
    options: CaseOptions,
    *,
    stamper: Stamper | None = None,
    advance: Advance | None = None,
) -> CaseReport:
    """Do all of it, or what is left of it; the report is also in the folder.

    Raises:
        UsageError: bad arguments, a folder that is no case's, or another run is at work in it.
        MediaError: the folder cannot be written.
        VeilError: the ledger cannot be written.
    """
    _check(recordings, folder_path, options)
    folder = CaseFolder(folder_path)
    folder.create()
    with folder.locked():
        return _Run(folder, engine, ledger, options, advance or (lambda _: None)).run(recordings, stamper)


def _check(recordings: Sequence[Path], folder: Path, options: CaseOptions) -> None:
    usable_suffix(options.container)
    chosen = parse_range(options.start, options.end)
    Purpose(options.reason, options.case)
    relative = any(point is not None and not point.is_absolute for point in (chosen.start, chosen.end))
    if relative and len(recordings) > 1:
        message = "--from, --to: with several recordings give times of the calendar (ISO 8601)"
        raise UsageError(message)
    if options.is_evidence and not options.cameras:
        message = "evidence: needs the public key of the camera that must have signed"
        raise UsageError(message)
    inside = folder.absolute()
    if any(inside == each.absolute() or inside in each.absolute().parents for each in recordings):
        message = f"{folder}: recordings lie in it; choose a folder of its own for the case"
        raise UsageError(message)


class _Run:
    def __init__(
        self, folder: CaseFolder, engine: Engine, ledger: Ledger, options: CaseOptions, advance: Advance
    ) -> None:
        self._folder, self._engine, self._ledger = folder, engine, ledger
        self._options, self._advance = options, advance
        self._started_us = time.time_ns() // 1000

    def run(self, recordings: Sequence[Path], stamper: Stamper | None) -> CaseReport:
        jobs, skipped = self._jobs(recordings)
        acquired = self._stage(jobs, "acquire", 0.0, _ACQUIRE_SHARE)
        lost = {number: result for number, result in enumerate(acquired) if result.exit_code}
        left = [job for number, job in enumerate(jobs) if number not in lost]
        done = iter(self._stage(left, "process", _ACQUIRE_SHARE, 1.0 - _ACQUIRE_SHARE))
        results = tuple(lost[number] if number in lost else next(done) for number in range(len(jobs)))
        outside = [result for result in results if result.is_outside]
        skipped += [result.stem for result in outside]
        code = max((result.exit_code for result in outside), default=FAILURE)
        report = self._report(tuple(each for each in results if not each.is_outside), skipped, code)
        self._publish(report, stamper)
        return report

    def _jobs(self, recordings: Sequence[Path]) -> tuple[list[CaseJob], list[str]]:
        options = self._options
        chosen = parse_range(options.start, options.end)
        jobs: list[CaseJob] = []
        skipped: list[str] = []
        used: dict[str, int] = {}
        for path in recordings:
            claim = _claim(path)
            if claim is not None and claim.is_outside(chosen.resolve(claim.start_us)):
                skipped.append(path.name)
                continue
            stem = _unique(_stem(path), used)
            jobs.append(
                CaseJob.make(
                    path,
                    stem,
                    _camera(options.cameras, claim),
                    start=options.start,
                    end=options.end,
                    suffix=usable_suffix(options.container),
                    reason=options.reason,
                    case=options.case,
                    from_start=options.from_start,
                    is_evidence=options.is_evidence,
                    keep_native=options.keep_native,
                    verify_only=options.verify_only,
                )
            )
        return jobs, skipped

    def _stage(self, jobs: Sequence[CaseJob], stage: str, start: float, share: float) -> list[ItemResult]:
        if not jobs:
            return []
        return self._engine.run(self._folder, jobs, stage, _Total(len(jobs), start, share, self._advance))

    def _report(self, results: tuple[ItemResult, ...], skipped: Sequence[str], empty_code: int) -> CaseReport:
        options = self._options
        return CaseReport(
            case=options.case,
            reason=options.reason,
            start=options.start,
            end=options.end,
            is_evidence=options.is_evidence,
            operator=operator(),
            started=iso_time(self._started_us),
            finished=iso_time(time.time_ns() // 1000),
            results=results,
            skipped=tuple(skipped),
            joints=joints(results),
            engine=self._engine.name,
            jobs=self._engine.num_jobs,
            empty_code=empty_code,
        )

    def _publish(self, report: CaseReport, stamper: Stamper | None) -> None:
        """Reports, sums, ledger, time stamp: in this order, so that each covers those before it."""
        folder = self._folder
        for name in (SUMS, STAMP):
            (folder.path / name).unlink(missing_ok=True)
        # A name that is not UTF-8 holds lone surrogates: written as JSON's \udcXX, it is JSON and exact.
        text = json.dumps(report.as_json(), indent=2, ensure_ascii=False)
        document = text.encode(errors="backslashreplace") + b"\n"
        known = {file.name: file.sha256 for file in (folder.write("report.json", document),)}
        page = folder.write("report.html", case_html(report))
        known[page.name] = page.sha256
        self._remove_strays(report)
        sums = folder.sums(known)
        digest = hashlib.sha256(sums)
        self._append(report, digest.hexdigest())
        folder.write(SUMS, sums)
        if stamper is not None:
            folder.write(STAMP, stamper(sums))

    def _remove_strays(self, report: CaseReport) -> None:
        """Videos and transcripts of earlier runs that this report does not speak of."""
        named = {name for result in report.results for name in (result.files or {})}
        stems = {result.stem for result in report.results}
        for name in ("video", "verification"):
            for path in (self._folder.path / name).iterdir():
                if self._folder.relative(path) not in named:
                    path.unlink()
        for path in (self._folder.path / "native").iterdir():
            if path.stem not in stems:
                path.unlink()

    def _append(self, report: CaseReport, sums_sha256: str) -> None:
        body: JsonObject = {
            "who": report.operator,
            "case": report.case,
            "reason": report.reason,
            "folder": printable_name(self._folder.path),
            "recordings": len(report.results),
            "openings": [result.ledger_seq for result in report.results][:400],
            "verdict": None if report.verdict is None else report.verdict.value,
            "exit_code": report.exit_code,
            "sums_sha256": sums_sha256,
        }
        try:
            self._ledger.append("export", body)
        except OSError as error:
            message = (
                f"ledger {self._ledger.path}: cannot be written ({error.strerror}); the case is not closed"
            )
            raise VeilError(message) from error


class _Total:
    """The share of all jobs that is done; called from several threads, each with its own job."""

    def __init__(self, num_jobs: int, start: float, share: float, advance: Advance) -> None:
        self._shares = [0.0] * num_jobs
        self._start, self._share, self._advance = start, share, advance

    def __call__(self, number: int, share: float) -> None:
        self._shares[number] = max(share, self._shares[number])
        self._advance(self._start + self._share * sum(self._shares) / len(self._shares))


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a recording says about itself, unproven: good enough to sort it."""

    camera_id: bytes | None
    start_us: int
    end_us: int | None

    def is_outside(self, asked: tuple[int | None, int | None]) -> bool:
        """Whether it surely lies outside of a range; a minute of doubt on either side."""
        start, end = asked
        before = start is not None and self.end_us is not None and self.end_us + _MARGIN_US < start
        return before or (end is not None and self.start_us - _MARGIN_US > end)


def _claim(path: Path) -> _Claim | None:
    """Read the first picture's records and the container's length; None if there is nothing to read."""
    try:
        with read_access_units(path) as reader:
            for unit, _ in zip(reader, range(_PROBE_UNITS), strict=False):
                viewed = view_unit(unit)
                if viewed.frame is None or viewed.meta is None or viewed.meta.header is None:
                    continue
                camera_id = viewed.meta.header[1:17]
                return _Claim(camera_id, viewed.frame.time_us, _end_us(path, viewed.frame.time_us))
    except VeilError:
        return None
    return None


def _end_us(path: Path, start_us: int) -> int | None:
    try:
        with av.open(f"file:{path}", container_options={"protocol_whitelist": "file"}) as container:
            return None if container.duration is None else start_us + container.duration
    except (av.FFmpegError, ValueError):
        return None


def _camera(cameras: Sequence[CameraPublic], claim: _Claim | None) -> CameraPublic | None:
    named = [camera for camera in cameras if claim is not None and camera.camera_id == claim.camera_id]
    return next(iter([*named, *cameras]), None)


def _stem(path: Path) -> str:
    return _UNSAFE.sub("_", path.stem).strip("._") or "recording"


def _unique(stem: str, used: dict[str, int]) -> str:
    used[stem] = used.get(stem, 0) + 1
    return stem if used[stem] == 1 else _unique(f"{stem}-{used[stem]}", used)


@dataclass(frozen=True, slots=True)
class BundleCheck:
    """Whether a bundle is as it was handed over.

    Attributes:
        sums_sha256: of SHA256SUMS, to be compared with the ledger and the hand-over sheet.
    """

    num_files: int
    sums_sha256: str
    problems: tuple[str, ...]

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "ok": not self.problems,
            "files": self.num_files,
            "sums_sha256": self.sums_sha256,
            "problems": list(self.problems),
        }


def check_bundle(path: Path, advance: Advance | None = None) -> BundleCheck:
    """Hash every file of a bundle again; changed, missing and added files are problems.

    Raises:
        UsageError: it has no SHA256SUMS.
    """
    sums_path = path / SUMS
    if not sums_path.is_file():
        message = f"{path}: no {SUMS} in it: not the folder of a finished case"
        raise UsageError(message)
    folder = CaseFolder(path)
    sums = sums_path.read_bytes()
    stated: dict[str, str] = {}
    problems: list[str] = []
    for line in sums.decode("utf-8", "replace").splitlines():
        sha256, _, name = line.partition("  ")
        if not re.fullmatch(r"[0-9a-f]{64}", sha256) or not name or name in stated:
            problems.append(f"{SUMS}: a line that is no sum: {line[:80]!r}")
        else:
            stated[name] = sha256
    here = {folder.relative(file): file for file in folder.files()}
    for number, (name, sha256) in enumerate(sorted(stated.items())):
        if name not in here:
            problems.append(f"{name}: missing")
        elif describe(here[name]).sha256 != sha256:
            problems.append(f"{name}: changed")
        if advance is not None:
            advance((number + 1) / len(stated))
    problems += [f"{name}: a link, or no file at all" for name in folder.oddities()]
    problems += [f"{name}: not in the list" for name in sorted(here.keys() - stated.keys())]
    return BundleCheck(len(stated), hashlib.sha256(sums).hexdigest(), tuple(problems))


def check_stamp(path: Path, roots: Path) -> Stamp:
    """Check a bundle's time stamp up to one of the certificates in ``roots`` (PEM).

    Raises:
        UsageError: the bundle has none.
        AuthenticationFailed: it does not fit.
    """
    if not (path / STAMP).is_file():
        message = f"{path}: has no time stamp ({STAMP})"
        raise UsageError(message)
    stamp = read_bounded(path / STAMP, MAX_STAMP_BYTES)
    return check(stamp, (path / SUMS).read_bytes(), roots)
