"""Options that several commands share, and how examples appear in the help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite outputs that exist.")]
RecipientFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--recipient", "-r", metavar="FILE", help="NAME.recipient file that may decode; repeat for several."
    ),
]
CameraFile = Annotated[
    Path, typer.Option("--camera", "-c", metavar="FILE", help="NAME.camera file that signs the video.")
]


def examples(*lines: str) -> str:
    """Help epilog that shows ``lines`` as they are to be typed."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
