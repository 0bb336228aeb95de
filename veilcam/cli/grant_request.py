"""``veilcam grant request``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from base.errors import UsageError
from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output, table

if TYPE_CHECKING:
    from keys.grant_terms import RegionBox, TimeSpan


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam grant request theft.request -c gate.pub -r iris.recipient --from 2026-11-30T08:00:00Z "
        "--to 2026-11-30T08:05:00Z --case 2026-117 --reason 'theft at the gate'",
        "veilcam grant request a.request -c gate.pub -r iris.recipient --recording rec.mp4 --from 60 --to 90 "
        "--tracks t.jsonl --track 7 --case A15-3 --reason 'access request' --expires 14d --uses 1",
    )
    app.command("request", short_help="Ask for a part of the footage.", epilog=epilog)(request)


def request(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The request.")],
    *,
    camera: Annotated[Path, typer.Option("--camera", "-c", metavar="FILE", help="NAME.pub of the camera.")],
    investigator: Annotated[
        Path, typer.Option("--for", "-r", metavar="FILE", help="NAME.recipient of who will open it.")
    ],
    start: Annotated[
        list[str],
        typer.Option("--from", metavar="T", help="ISO 8601, or seconds of --recording. Repeatable."),
    ],
    end: Annotated[list[str], typer.Option("--to", metavar="T", help="Likewise, one for each --from.")],
    case: Annotated[str, typer.Option(help="Case number.")],
    reason: Annotated[str, typer.Option(help="Why it is needed.")],
    expires: Annotated[str, typer.Option(metavar="T", help="12h, 30d, 8w, or a time (ISO 8601).")] = "30d",
    uses: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many openings, failed ones too; 0: any number.")
    ] = 5,
    recording: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Protected video whose start the seconds count from.")
    ] = None,
    regions: Annotated[
        list[str] | None,
        typer.Option(
            "--regions", metavar="X,Y,W,H[@T0-T1]", help="Only this part of the picture; repeatable."
        ),
    ] = None,
    track: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only where this track of --tracks is; repeatable.")
    ] = None,
    tracks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON Lines of detections or events with ids.")
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write what is asked for, for the custodians to read, approve and issue. It opens nothing."""
    from forensics.grants import request_facts
    from forensics.ledger import EventKind, Ledger, default_ledger_path
    from forensics.opening import record_event
    from keys.grant_terms import GrantRequest
    from veilcam.cli.grant_files import write_document
    from veilcam.cli.grant_text import parse_expiry, request_rows
    from veilcam.cli.key_files import camera_public_from, recipients_from
    from veilcam.cli.paths import new_file

    output = Output(as_json)
    new_file(out, force=force)
    ledger = Ledger(default_ledger_path())
    now_us = ledger.now_us()
    origin_us = None if recording is None else _start_of(recording)
    asked = GrantRequest.new(
        camera_public_from(camera).camera_id,
        _spans(start, end, origin_us),
        recipients_from([investigator])[0],
        case=case,
        reason=reason,
        made_us=now_us,
        expires_us=parse_expiry(expires, now_us),
        uses=uses or None,
        regions=_boxes(regions or [], track or [], tracks, origin_us),
    )
    record_event(ledger, EventKind.GRANT_REQUESTED, request_facts(asked))
    write_document(out, bytes(asked))
    output.say(table(request_rows(asked)))
    output.say(f"{out}: give it to the custodians")
    output.result({"ok": True, "request": str(out), "digest": asked.digest.hex(), **asked.as_json()})


def _spans(starts: list[str], ends: list[str], origin_us: int | None) -> list[TimeSpan]:
    from forensics.selection import parse_range
    from keys.grant_terms import TimeSpan

    if len(starts) != len(ends):
        raise UsageError("--from and --to: give one --to for each --from")
    spans: list[TimeSpan] = []
    for start, end in zip(starts, ends, strict=True):
        chosen = parse_range(start, end)
        if chosen.start is None or chosen.end is None:
            raise UsageError("--from and --to: expected two times")
        if origin_us is None and not (chosen.start.is_absolute and chosen.end.is_absolute):
            raise UsageError("--from and --to: seconds need --recording; else give ISO 8601 with a time zone")
        start_us, end_us = chosen.resolve(origin_us or 0)
        spans.append(TimeSpan(start_us or 0, end_us or 0))
    return spans


def _boxes(
    texts: list[str], track_ids: list[str], tracks: Path | None, origin_us: int | None
) -> tuple[RegionBox, ...]:
    from forensics.grant_regions import request_boxes
    from forensics.region_choice import RegionChoice, parse_box, read_track
    from veilcam.cli.paths import existing_file

    if bool(track_ids) != (tracks is not None):
        raise UsageError("--track and --tracks: give both, or neither")
    rules = [parse_box(text) for text in texts]
    found = [read_track(existing_file(tracks, "--tracks"), each) for each in track_ids] if tracks else []
    if (found or any("@" in text for text in texts)) and origin_us is None:
        raise UsageError(
            "--regions with times and --track need --recording: their seconds count from its start"
        )
    return request_boxes(RegionChoice((*rules, *found)), origin_us or 0)


def _start_of(recording: Path) -> int:
    """Capture time of the first picture that names one, Unix microseconds; nothing is verified here."""
    from codec.segments import read_segments
    from forensics.input_file import Evidence
    from veilcam.cli.paths import existing_file

    with Evidence(existing_file(recording, "--recording")) as evidence, evidence.units() as units:
        for view in read_segments(units.reader):
            for frame, _ in view.own_units():
                return frame.time_us
    raise UsageError(f"--recording: {recording.name} has no veilcam data")
