"""``veilcam doctor``."""

from __future__ import annotations

import typer

from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output
from veilcam.exit_codes import ExitCode

_MARKS = {"ok": "ok  ", "note": "note", "broken": "FAIL"}


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(
        "doctor",
        short_help="Check that this machine has what is needed.",
        epilog=examples("veilcam doctor", "veilcam doctor --json | jq '.findings[]'"),
    )(doctor)


def doctor(*, as_json: JsonFlag = False) -> int:
    """Check that this machine has what veilcam needs; status 1 if something needed is broken."""
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
