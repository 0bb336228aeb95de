"""``veilcam doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output
from veilcam.exit_codes import ExitCode

_MARKS = {"ok": "ok  ", "note": "note", "broken": "FAIL"}


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    group = typer.Typer(
        short_help="Check that this machine has what is needed; what a hop keeps of a stream.",
        epilog=examples(
            "veilcam doctor",
            "veilcam doctor --json | jq '.findings[]'",
            "veilcam doctor carrier camera.mp4 from-the-nvr.mp4",
        ),
    )
    group.callback(invoke_without_command=True)(doctor)
    group.command("carrier", short_help="Say what a hop kept of a stream.")(carrier)
    app.add_typer(group, name="doctor")


def carrier(
    sent: Annotated[Path, typer.Argument(metavar="SENT", help="Recorded before the hop, by the camera.")],
    received: Annotated[Path, typer.Argument(metavar="RECEIVED", help="The same time, behind the hop.")],
    *,
    as_json: JsonFlag = False,
) -> int:
    """Say what a recorder, media server or converter kept: pictures, signatures, sealed layer, times.

    Both files are recordings of the same time; one may be longer. Status 0 says that everything arrived, 3
    that something did not.
    """
    from veilcam.checks.carrier import Kept, compare
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    report = compare(existing_file(sent, "SENT"), existing_file(received, "RECEIVED"))
    output.say(report.text())
    is_whole = report.kept is Kept.ALL
    output.result({"ok": is_whole, **report.as_json()})
    return int(ExitCode.OK if is_whole else ExitCode.INTEGRITY)


def doctor(context: typer.Context, *, as_json: JsonFlag = False) -> int:
    """Check that this machine has what veilcam needs; status 1 if something needed is broken."""
    if context.invoked_subcommand is not None:
        return 0
    from veilcam.checks.all import run_checks
    from veilcam.checks.finding import Finding, Status

    output = Output(as_json)
    findings: list[Finding] = []
    group = ""
    for finding in run_checks():
        findings.append(finding)
        if finding.group != group:
            group = finding.group
            output.say(f"{group}")
        output.say(f"  {_MARKS[finding.status.value]}  {finding.name}: {finding.detail}")
    broken = [finding.name for finding in findings if finding.status is Status.BROKEN]
    output.say("\nEverything needed works." if not broken else f"\nBroken: {', '.join(broken)}")
    output.result(
        {"ok": not broken, "broken": broken, "findings": [finding.as_json() for finding in findings]}
    )
    return int(ExitCode.FAILURE if broken else ExitCode.OK)
