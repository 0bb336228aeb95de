"""``veilcam demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam demo", "veilcam demo --serve", "veilcam demo --input street.mp4 --out street-demo"
    )
    app.command("demo", short_help="Show everything once, on the shipped clip.", epilog=epilog)(demo)


def demo(
    *,
    serve: Annotated[
        bool, typer.Option("--serve", help="Afterwards keep the live page up until Ctrl-C.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = Path("demo-out"),
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="H.264 or H.265 video instead of the sample."),
    ] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of --serve.")] = "127.0.0.1:8080",
    live_seconds: Annotated[float, typer.Option(min=1.0, help="How long to watch the live stream.")] = 5.0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Show everything once: keys, protect, live stream, detect, verify, decode, refuse, catch.

    Runs the product's own commands on the shipped clip and checks each outcome. Leaves a picture sheet
    (sheet.png), all files and a summary (summary.json) in the folder of --out.
    """
    from veilcam.assets import SAMPLE
    from veilcam.cli.paths import existing_file
    from veilcam.demo.folder import open_demo_folder
    from veilcam.demo.run import DemoOptions, run_demo
    from veilcam.demo.serve import serve_demo

    output = Output(as_json)
    chosen = existing_file(source, "--input") if source else SAMPLE
    folder = open_demo_folder(out, force=force)
    summary = run_demo(folder, DemoOptions(chosen, live_seconds), output.say)
    output.result(summary)
    if serve:
        serve_demo(folder, chosen, listen, output)
