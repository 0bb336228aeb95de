"""``veilcam verify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam verify out.mp4 --camera gate.pub",
        "veilcam verify out.mp4 --camera gate.pub --from-start --report out.json",
    )
    app.command("verify", short_help="Check that nothing was changed, cut or swapped.", epilog=epilog)(verify)


def verify(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Protected video.")],
    *,
    camera: Annotated[
        Path,
        typer.Option("--camera", "-c", metavar="FILE", help="NAME.pub of the camera that must have signed."),
    ],
    from_start: Annotated[
        bool,
        typer.Option("--from-start", help="A start later than the camera's is a gap too."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the full report (JSON).")
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Check that nothing in IN was changed, cut, swapped or replayed; needs no decryption key.

    The verdict is AUTHENTIC (status 0), or GAPS, TAMPERED, UNSIGNED, UNVERIFIABLE (status 3), with evidence.
    """
    from base.files import atomic_write
    from forensics.verify_file import verify as verify_recording
    from veilcam.cli.key_files import camera_public_from
    from veilcam.cli.paths import existing_file, new_file

    output = Output(as_json)
    existing_file(source, "IN")
    if report:
        new_file(report, force=force)
    public = camera_public_from(camera)
    with output.progress("verifying") as advance:
        found = verify_recording(source, public, is_excerpt=not from_start, advance=advance)
    document = {"ok": found.exit_code == 0, **found.as_json()}
    if report:
        atomic_write(report, json.dumps(document, indent=2).encode() + b"\n")
    output.say(found.text())
    output.result(document)
    return found.exit_code
