"""``veilcam version``."""

from __future__ import annotations

import typer

from base.version import __version__
from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("version", epilog=examples("veilcam version", "veilcam version --json"))(version)


def version(*, as_json: JsonFlag = False) -> None:
    """Print the version."""
    output = Output(as_json)
    output.say(f"veilcam {__version__}")
    output.result({"ok": True, "version": __version__})
