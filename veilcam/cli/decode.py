"""``veilcam decode``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from base.errors import UsageError
from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forensics.canonical import JsonObject
    from forensics.opening import Purpose
    from forensics.region_choice import RegionChoice
    from keys.source import KeySource
    from keys.wrap import Unwrapper


class RecoveryPath(StrEnum):
    """Where the original comes back from."""

    SEALED = "sealed"
    PIXELS = "pixels"
    AUTO = "auto"


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam decode out.mp4 -o original.mp4 --identity custodian.identity --camera gate.pub",
        "veilcam decode out.mp4 -o part.mp4 --identity custodian.identity --from 60 --to 90 --case 2026-117",
        "veilcam decode out.mp4 -o part.mp4 --identity custodian.identity --from 2026-11-30T08:00:00Z",
        "veilcam decode out.mp4 -o theft.mp4 --identity iris.identity --grant theft.grant --camera gate.pub",
        "veilcam decode out.mp4 -o person.mp4 --identity custodian.identity --regions 320,100,64,128@12-20",
        "veilcam decode out.mp4 -o person.mp4 -i custodian.identity --tracks t.jsonl --track 7 --tiles",
        "veilcam decode recoded.mp4 -o seen.mp4 -i custodian.identity --path pixels --headers-from out.mp4",
    )
    app.command("decode", short_help="Get the original back with the key.", epilog=epilog)(decode)


def decode(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Protected video.")],
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="OUT", help="The original; a report is written beside it.")
    ],
    identity: Annotated[
        list[Path],
        typer.Option(
            "--identity",
            "-i",
            metavar="FILE|URI",
            help="NAME.identity, or pkcs11:, exec:, shares:, quorum: (docs/keys.md); repeat to try several.",
        ),
    ],
    grant: Annotated[
        Path | None,
        typer.Option(
            "--grant", "-g", metavar="FILE", help="Grant made out to the identity; opens its scope."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Custody policy the grant must satisfy.", envvar="VEILCAM_CUSTODY"),
    ] = None,
    revocation: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Revocation to heed, from `veilcam grant revoke`; repeatable."),
    ] = None,
    camera: Annotated[
        Path | None,
        typer.Option("--camera", "-c", metavar="FILE", help="NAME.pub: also check who signed. Recommended."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="T", help="Seconds from the start, or a time (ISO 8601).")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="T", help="Likewise, the end.")] = None,
    regions: Annotated[
        list[str] | None,
        typer.Option(
            "--regions",
            metavar="X,Y,W,H[@T0-T1]",
            help="Show only this part of the original, over the protected video: a box in its pixels, "
            "rounded outwards to whole regions, perhaps for a time. Repeat for several. The recording has to "
            "be made with --sealed-regions.",
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Likewise, where this track of --tracks is; repeat for several."),
    ] = None,
    tracks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON Lines of detections or events with ids.")
    ] = None,
    tiles: Annotated[
        bool,
        typer.Option("--tiles", help="Also write the regions as they were sealed, to OUT.tiles.mkv."),
    ] = False,
    from_start: Annotated[
        bool,
        typer.Option("--from-start", help="A start later than the camera's is a gap too."),
    ] = False,
    path: Annotated[
        RecoveryPath,
        typer.Option(
            "--path",
            help="sealed: the exact original. pixels: an approximation from the picture itself, for copies "
            "that were coded again. auto: sealed, and the rest from pixels, in OUT's .restored.mp4.",
        ),
    ] = RecoveryPath.SEALED,
    headers_from: Annotated[
        Path | None,
        typer.Option(
            "--headers-from", metavar="FILE", help="For pixels: a copy or sidecar that still has the headers."
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why it is opened; goes into report and ledger.")] = "",
    case: Annotated[str, typer.Option(help="Case number; goes into report and ledger.")] = "",
    evidence: Annotated[
        bool,
        typer.Option("--evidence", help="Only what the camera signed; refuse what a network restored."),
    ] = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Get the original back, bit for bit as it was sealed, with a report (OUT.report.json).

    Whole segments around the time range are written. With --regions or --track, and where a grant holds some
    regions only, these are shown over the protected video and the sound stays closed. Status 3 says that
    something is missing or does not verify (what is intact is written all the same), 4 that no identity
    fits. The passphrase is asked for, or taken from VEILCAM_PASSPHRASE. Every opening is appended to the
    ledger (the file in VEILCAM_LEDGER, else in the user's state folder).
    """
    from forensics.decode import DecodeOptions, report_path, tiles_path
    from forensics.decode import decode as decode_recording
    from forensics.decode_report import Outcome
    from forensics.opening import Purpose
    from forensics.selection import parse_range
    from keys.source import as_key_source
    from veilcam.cli.grant_files import opened_grant
    from veilcam.cli.key_files import camera_public_from, identities_from
    from veilcam.cli.paths import different_files, existing_file, new_file

    output = Output(as_json)
    existing_file(source, "IN")
    for target in (out, report_path(out), *((tiles_path(out),) if tiles else ())):
        new_file(target, force=force)
        different_files(source, target)
    identities = identities_from(identity)
    keys: KeySource | Sequence[Unwrapper] = identities
    purpose = Purpose(reason, case)
    if grant is not None:
        opened = opened_grant(grant, identities, policy, revocation or [])
        terms = opened.grant.terms.request
        keys, purpose = opened, Purpose(reason or terms.reason, case or terms.case)
    options = DecodeOptions(
        chosen=parse_range(start, end),
        purpose=purpose,
        is_excerpt=not from_start,
        overwrite=force,
        regions=_choice(regions or [], track or [], tracks),
        tiles=tiles,
        signed_only=evidence,
    )
    if evidence:
        path = _evidence_path(source, path, has_camera=camera is not None)
    public = camera_public_from(camera) if camera else None
    if path is RecoveryPath.PIXELS:
        return _restore(
            *(output, source, out, as_key_source(keys)),
            purpose=purpose,
            headers_from=headers_from,
            force=force,
        )
    with output.progress("decoding") as advance:
        report = decode_recording(source, out, keys, camera=public, options=options, advance=advance)
    output.say(report.text())
    if path is RecoveryPath.AUTO and not report.is_complete:
        delivered = frozenset(row.ordinal for row in report.opened if row.outcome is Outcome.DELIVERED)
        restored = out.with_name(f"{out.stem}.restored.mp4")
        return _restore(
            *(output, source, restored, as_key_source(keys)),
            purpose=purpose,
            headers_from=headers_from,
            force=force,
            delivered=frozenset() if headers_from else delivered,
            exact=report.as_json(),
        )
    output.result(
        {"ok": report.exit_code == 0, "out": str(out) if report.output else None, **report.as_json()}
    )
    return report.exit_code


def _restore(
    output: Output,
    source: Path,
    out: Path,
    keys: KeySource,
    *,
    purpose: Purpose,
    headers_from: Path | None,
    force: bool,
    delivered: frozenset[int] = frozenset(),
    exact: JsonObject | None = None,
) -> int:
    """The pixel path; ``exact`` is what the sealed path reported before, under --path auto."""
    from forensics.pixels import RestoreOptions, restore_pixels

    options = RestoreOptions(purpose=purpose, headers_from=headers_from, delivered=delivered, overwrite=force)
    with output.progress("restoring") as advance:
        report = restore_pixels(source, out, keys, options=options, advance=advance)
    output.say(report.text())
    output.result(
        {
            "ok": report.exit_code == 0,
            "out": str(out) if report.output else None,
            **report.as_json(),
            **({} if exact is None else {"sealed": exact}),
        }
    )
    return report.exit_code


def _choice(boxes: list[str], track_ids: list[str], tracks: Path | None) -> RegionChoice:
    from forensics.region_choice import RegionChoice, parse_box, read_track
    from veilcam.cli.paths import existing_file

    if bool(track_ids) != (tracks is not None):
        raise UsageError("--track and --tracks: give both, or neither")
    rules = [parse_box(text) for text in boxes]
    found = [read_track(existing_file(tracks, "--tracks"), each) for each in track_ids] if tracks else []
    return RegionChoice((*rules, *found))


def _evidence_path(source: Path, path: RecoveryPath, *, has_camera: bool) -> RecoveryPath:
    """The sealed path, if that is what may be taken; nothing restored is evidence."""
    from base.errors import UsageError
    from forensics.restored import NOTE, NotEvidence, refuse_restored

    if not has_camera:
        raise UsageError("--evidence needs --camera: the public key of the camera that must have signed")
    if path is RecoveryPath.PIXELS:
        raise NotEvidence(f"--path pixels: what comes back is {NOTE}")
    refuse_restored(source)
    return RecoveryPath.SEALED
