"""Open a recording: from the protected file and an identity back to the original.

Two readings of the file. The first checks every segment and opens nothing; from it comes the
verdict and the plan. Then the ledger learns what is going to happen. The second reading decrypts
the planned segments one by one into a file that nobody else can read, which gets its name only
when the ledger holds its hash. Packets are copied and clear pictures never decoded, but where the
original is split into regions: then the chosen ones are shown over the protected video.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from base.errors import KeyUnavailable, NoMatchingIdentity, OutsideGrant, UsageError
from codec.limits import DEFAULT_LIMITS, Limits
from codec.muxer import MUXER_OF_SUFFIX
from forensics.canonical import JsonObject
from forensics.decode_report import DecodeReport, OpenedRow, Outcome
from forensics.extract import Extraction
from forensics.input_file import Advance, Evidence, printable_name
from forensics.ledger import Ledger, default_ledger_path
from forensics.opening import Opening, Purpose, Request, open_recorded, ranges_text, refuse
from forensics.output_folder import OutputFolder
from forensics.plan import Candidate, Plan, Proof, Unusable, candidate_of, make_plan
from forensics.region_choice import RegionChoice
from forensics.region_extract import RegionExtraction
from forensics.region_report import RegionReport
from forensics.report import FileDigest, SegmentRow, VerificationReport, settled
from forensics.selection import TimeRange
from forensics.verdict import RollUp
from forensics.verify_file import describe_damage, examine
from keys import CameraPublic
from keys.source import KeySource, as_key_source
from keys.wrap import Unwrapper

__all__ = ["DecodeOptions", "DecodeReport", "decode", "report_path"]

_MAX_DAMAGE = 50


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How to open.

    Attributes:
        chosen: capture times; the output is cut on segment borders around them.
        purpose: for the ledger and the report.
        is_excerpt: the recording may start within its stream; if False, that is a gap.
        overwrite: replace an output that exists.
        regions: of recordings whose original is split into regions, show these alone.
        tiles: of such recordings, also write what the camera sealed to `tiles_path`, packet by packet.
        signed_only: open nothing but what the camera's signature speaks for (evidence).
    """

    chosen: TimeRange = field(default_factory=TimeRange)
    purpose: Purpose = field(default_factory=Purpose)
    is_excerpt: bool = True
    overwrite: bool = False
    regions: RegionChoice = field(default_factory=RegionChoice)
    tiles: bool = False
    signed_only: bool = False
    limits: Limits = DEFAULT_LIMITS


def decode(
    path: Path,
    out: Path,
    keys: KeySource | Sequence[Unwrapper],
    *,
    camera: CameraPublic | None = None,
    ledger: Ledger | None = None,
    options: DecodeOptions | None = None,
    advance: Advance | None = None,
) -> DecodeReport:
    """Write the original of a recording to ``out``, and beside it ``out`` + ``.report.json``.

    The output holds the packets that the camera sealed, byte for byte, in an ordinary container.
    The same input and range give the same bytes.

    Args:
        path: a protected recording.
        out: its ending chooses the container; both files get mode 0600.
        keys: identities to try, or an opened grant.
        camera: whose signatures to expect; without it nothing is proven (verdict UNVERIFIABLE at best).
        ledger: where the opening is written before it happens; default `default_ledger_path`.
        options: see there.
        advance: told how far it is.

    Returns:
        The report. ``output`` is None if nothing could be opened.

    Raises:
        NoMatchingIdentity: no segment is sealed to one of the identities; the attempt is in the ledger.
        OutsideGrant: the grant holds none of the segments asked for; likewise.
        GrantRefused: the grant is over, used up or revoked; likewise.
        UsageError: a bad name, an output that exists, a container that cannot hold the original, or a
            range in which there is nothing.
        MediaError: the input cannot be read, or the output not written.
        AuthenticationFailed: the ledger's end does not verify.
        VeilError: the ledger cannot be written; then nothing was opened.
    """
    options = options or DecodeOptions()
    _check_names(path, out, overwrite=options.overwrite, tiles=options.tiles)
    with Evidence(path) as evidence:
        source = as_key_source(keys)
        survey = _Survey(evidence, camera, source, options, _part(advance, 0.0, 0.5))
        job = _Job(survey, out, source, ledger or Ledger(default_ledger_path()), options)
        return job.run(evidence, _part(advance, 0.5, 0.5))


def report_path(out: Path) -> Path:
    """Return where the report of an output goes."""
    return out.with_name(out.name + ".report.json")


def tiles_path(out: Path) -> Path:
    """Return where the tiles of an output go, one track each: Matroska holds every codec that we seal."""
    return out.with_name(out.name + ".tiles.mkv")


def _check_names(path: Path, out: Path, *, overwrite: bool, tiles: bool) -> None:
    if out.suffix.lower() not in MUXER_OF_SUFFIX:
        message = f"{out.name}: expected a name that ends in {', '.join(MUXER_OF_SUFFIX)}"
        raise UsageError(message)
    if not out.parent.is_dir():
        message = f"{out.parent}: no such folder"
        raise UsageError(message)
    for target in (out, report_path(out), *((tiles_path(out),) if tiles else ())):
        if target.exists() and path.exists() and target.samefile(path):
            message = f"{target.name}: is the input"
            raise UsageError(message)
        if target.is_dir() or (target.exists() and not overwrite):
            message = f"{target}: exists already"
            raise UsageError(message)


def _part(advance: Advance | None, start: float, share: float) -> Advance:
    return (lambda _: None) if advance is None else (lambda done: advance(start + share * done))


class _Survey:
    """The first reading: evidence, verdict and candidates; no private key involved."""

    def __init__(
        self,
        evidence: Evidence,
        camera: CameraPublic | None,
        source: KeySource,
        options: DecodeOptions,
        advance: Advance,
    ) -> None:
        described: FileDigest = evidence.describe()
        roll_up = RollUp(has_camera_key=camera is not None, is_excerpt=options.is_excerpt)
        rows: list[SegmentRow] = []
        self.candidates: list[Candidate] = []
        self.unusable: list[Unusable] = []
        with evidence.units(options.limits) as units:
            for checked in examine(units, camera, options.limits):
                row = checked.row()
                rows.append(row)
                roll_up.add(checked.evidence, starts_with_key=checked.starts_with_key, times=checked.times)
                found = candidate_of(checked, row.name, source)
                if isinstance(found, Candidate):
                    self.candidates.append(found)
                else:
                    self.unusable.append(found)
                advance(units.share)
            damage = tuple(describe_damage(each) for each in units.reader.problems[:_MAX_DAMAGE])
            for kind in units.reader.other_tracks:
                roll_up.add_track(kind)
        for text in damage:
            roll_up.add_damage(text)
        self.start_us = min((each.start_us for each in self.candidates), default=0)
        camera_id = camera.camera_id.hex() if camera is not None else None
        conclusion = roll_up.conclude()
        self.verification = VerificationReport(
            described, camera_id, conclusion, settled(rows, conclusion), damage
        )


class _Job:
    """One opening, after the survey."""

    def __init__(
        self,
        survey: _Survey,
        out: Path,
        source: KeySource,
        ledger: Ledger,
        options: DecodeOptions,
    ) -> None:
        self._survey = survey
        self._out = out
        self._source = source
        self._ledger = ledger
        self._options = options
        self._plan: Plan = make_plan(
            survey.candidates,
            options.chosen,
            only_ours=source.grant_id is not None,
            signed_only=options.signed_only,
        )

    def run(self, evidence: Evidence, advance: Advance) -> DecodeReport:
        self._refuse_strangers()
        with (
            open_recorded(self._ledger, self._request(), self._source) as opening,
            OutputFolder(self._out) as folder,
        ):
            return self._open(evidence, advance, opening, folder)

    def _open(
        self, evidence: Evidence, advance: Advance, opening: Opening, folder: OutputFolder
    ) -> DecodeReport:
        extraction = self._extraction(evidence, advance, opening)
        clip, tiles = folder.path_for(self._out.name), folder.path_for(tiles_path(self._out).name)
        has_output = extraction.write(clip)
        has_tiles = (
            has_output
            and self._options.tiles
            and isinstance(extraction, RegionExtraction)
            and extraction.write_tiles(tiles)
        )
        evidence.check_unchanged()
        output = folder.describe(clip) if has_output else None
        tiles_digest = folder.describe(tiles) if has_tiles else None
        report = self._report(extraction, opening, output, tiles_digest)
        facts: JsonObject = {
            "verdict": report.verdict.value,
            "exit_code": report.exit_code,
            "output": None if output is None else output.as_json(),
            "tiles": None if tiles_digest is None else tiles_digest.as_json(),
            "report_sha256": folder.add_json(report_path(self._out).name, report.as_json()),
            "delivered": ranges_text(row.ordinal for row in report.opened if row.num_packets),
        }
        opening.finish("opened" if output is not None else "nothing opened", facts)
        outputs = (*((tiles_path(self._out),) if has_tiles else ()), *((self._out,) if output else ()))
        folder.publish((report_path(self._out), *outputs), overwrite=self._options.overwrite)
        return report

    def _extraction(
        self, evidence: Evidence, advance: Advance, opening: Opening
    ) -> Extraction | RegionExtraction:
        """The reading that suits the first segment to open; the other kind asks for a range of its own."""
        plan, limits = self._plan, self._options.limits
        choice = self._options.regions
        if choice.rules or (plan.order and plan.order[0].grid is not None):
            origin_us = self._survey.start_us
            return RegionExtraction(
                evidence, plan, opening, limits, advance, choice=choice.at_start(origin_us)
            )
        return Extraction(evidence, plan, opening, limits, advance)

    def _refuse_strangers(self) -> None:
        """Stop before anything is opened if no key fits; the attempt goes into the ledger."""
        asked = (*self._plan.order, *self._plan.withheld, *self._plan.outside)
        if not asked or any(candidate.is_ours for candidate in asked):
            return
        name = self._survey.verification.input.name
        error: KeyUnavailable
        if self._source.grant_id is None:
            count = len(set(self._source.key_ids))
            error = NoMatchingIdentity(
                f"{name}: none of the {count} identities given is a recipient of what was asked for"
            )
        else:
            error = OutsideGrant(f"{name}: the grant holds no key of what was asked for")
        raise refuse(self._ledger, self._request(), error)

    def _request(self) -> Request:
        rows = self._survey.verification.segments
        cameras = dict.fromkeys(row.camera_id for row in rows if row.camera_id is not None)
        return Request(
            input=self._survey.verification.input,
            output_name=printable_name(self._out),
            camera_ids=tuple(cameras),
            identity_ids=self._source.key_ids,
            asked_us=self._plan.asked_us,
            segments=ranges_text(sorted(candidate.ordinal for candidate in self._plan.order)),
            purpose=self._options.purpose,
            grant_id=self._source.grant_id,
            regions=self._options.regions.texts,
        )

    def _report(
        self,
        extraction: Extraction | RegionExtraction,
        opening: Opening,
        output: FileDigest | None,
        tiles: FileDigest | None,
    ) -> DecodeReport:
        delivered = extraction.delivered
        regions: RegionReport | None = None
        if isinstance(extraction, RegionExtraction):
            regions = replace(extraction.report, asked=self._options.regions.texts, tiles=tiles)
        return DecodeReport(
            verification=self._survey.verification,
            output=output,
            tracks=extraction.tracks,
            opened=self._rows(extraction),
            asked_us=self._plan.asked_us,
            delivered_us=_span(delivered),
            sealed_modes=tuple(dict.fromkeys(each.mode.name.lower() for each in delivered)),
            model_ids=tuple(dict.fromkeys(each.model_id.hex() for each in delivered)),
            recipient_ids=extraction.recipient_ids,
            notes=(*self._plan.notes, *self._outside_note(), *extraction.notes),
            purpose=self._options.purpose,
            ledger_seq=opening.start.seq,
            ledger_hash=opening.start.hash,
            grant_id=self._source.grant_id,
            regions=regions,
        )

    def _rows(self, extraction: Extraction | RegionExtraction) -> tuple[OpenedRow, ...]:
        """All that was asked for, in the order of the file."""
        plan = self._plan
        withheld = [
            OpenedRow(c.ordinal, c.name, Outcome.WITHHELD, plan.proof_of(c), problems=(c.withheld or "",))
            for c in plan.withheld
        ]
        unusable = [
            OpenedRow(u.ordinal, u.name, Outcome.NOT_OPENED, Proof.NONE, problems=(u.why,))
            for u in self._survey.unusable
            if plan.asked_us == (None, None) and self._source.grant_id is None
        ]
        outside = [
            OpenedRow(
                c.ordinal, c.name, Outcome.NOT_OPENED, plan.proof_of(c), problems=("outside the grant",)
            )
            for c in plan.outside
            if plan.asked_us != (None, None)
        ]
        rows = [*extraction.rows, *withheld, *unusable, *outside]
        return tuple(sorted(rows, key=lambda row: row.ordinal))

    def _outside_note(self) -> tuple[str, ...]:
        """Without a range the grant says what is asked for, and what it does not hold is not missing."""
        if self._plan.asked_us != (None, None) or not self._plan.outside:
            return ()
        return (f"{len(self._plan.outside)} segments lie outside the grant and stay closed",)


def _span(delivered: Sequence[Candidate]) -> tuple[int, int] | None:
    if not delivered:
        return None
    return min(each.start_us for each in delivered), max(each.end_us for each in delivered)
