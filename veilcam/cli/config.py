"""``veilcam config``: look at a camera's settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from base.errors import UsageError
from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output
from veilcam.exit_codes import ExitCode

if TYPE_CHECKING:
    from camera.settings import CameraSettings

app = typer.Typer(
    help="Check and show a camera's settings.",
    epilog=examples(
        "veilcam config check gate.yaml",
        "veilcam config show gate.yaml",
        "veilcam config schema -o veilcam.schema.json",
    ),
    no_args_is_help=True,
)

SettingsFile = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Settings (YAML); without it the environment alone.")
]


@app.command(
    "check",
    short_help="Say what is wrong with settings.",
    epilog=examples(
        "veilcam config check gate.yaml", "VEILCAM__CODING__CRF=30 veilcam config check gate.yaml"
    ),
)
def check(file: SettingsFile = None, *, as_json: JsonFlag = False) -> int:
    """Check a settings file and what it names, the environment included; status 2 if anything is wrong.

    Keys, values, key files, tokens and addresses are looked at; nothing is opened or connected.
    """
    from camera.settings_check import find_problems

    output = Output(as_json)
    settings = _load(file)
    problems = find_problems(settings, os.environ)
    for problem in problems:
        output.say(problem)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    output.say("settings are fine" if not problems else f"{count} found")
    output.result({"ok": not problems, "file": str(file) if file else None, "problems": problems})
    return int(ExitCode.USAGE if problems else ExitCode.OK)


@app.command(
    "show",
    short_help="Show every setting with its value.",
    epilog=examples("veilcam config show gate.yaml", "veilcam config show gate.yaml --json | jq .http"),
)
def show(file: SettingsFile = None, *, as_json: JsonFlag = False) -> None:
    """Show all settings as a camera would use them: file, environment and defaults together, as YAML.

    Passwords and tokens are left out.
    """
    import yaml

    from camera.settings_check import shown

    output = Output(as_json)
    values = shown(_load(file))
    output.say(yaml.safe_dump(values, sort_keys=False, allow_unicode=True).rstrip())
    output.result(values)


@app.command(
    "schema",
    short_help="Print the JSON Schema of the settings file.",
    epilog=examples(
        "veilcam config schema -o veilcam.schema.json",
        "# then, as the first line of gate.yaml, for editors:",
        "# yaml-language-server: $schema=veilcam.schema.json",
    ),
)
def schema(
    *,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it here.")] = None,
    force: ForceFlag = False,
) -> None:
    """Print the JSON Schema of the settings file, with which editors complete and check it."""
    from base.files import atomic_write
    from camera.settings_check import schema as make_schema
    from veilcam.cli.paths import new_file

    text = json.dumps(make_schema(), indent=2) + "\n"
    if out is None:
        print(text, end="")
    else:
        atomic_write(new_file(out, force=force), text.encode())


def _load(file: Path | None) -> CameraSettings:
    from camera.settings import load_settings
    from veilcam.cli.paths import existing_file

    if file is None and not any(name.startswith("VEILCAM__") for name in os.environ):
        raise UsageError("config: expected a settings file, or VEILCAM__... variables")
    return load_settings(existing_file(file, "FILE") if file else None, os.environ)
