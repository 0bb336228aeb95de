"""``veilcam protect``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from base.errors import UsageError
from veilcam.cli.options import CameraFile, ForceFlag, JsonFlag, RecipientFiles, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from keys import CameraKey, EpochRing

Sealed = Literal["copy", "av1", "hevc", "h264", "ffv1", "none"]
SealedMode = Annotated[
    Sealed | None,
    typer.Option(
        "--sealed",
        help="How the original is kept: copy keeps the source's own stream, ffv1 every pixel. "
        "Default: copy where the source allows it, else h264.",
        show_default=False,
    ),
]
Crf = Annotated[float, typer.Option(min=0, max=51, help="Quality of the protected picture; lower is better.")]
SealedCrf = Annotated[
    float | None, typer.Option(min=0, max=63, help="Quality of a sealed original that is coded here.")
]
Pixels = Annotated[
    Literal["off", "low", "high"] | None,
    typer.Option(
        "--pixels",
        help="Also hide the original in the picture itself, so that an approximation of it comes back from "
        "copies that were coded again. Default: low where there is a recipient. high costs more bits.",
        show_default=False,
    ),
]
StrengthName = Literal["light", "standard", "strong", "maximum"]
Strengths = Annotated[
    StrengthName,
    typer.Option(
        "--strength",
        help="How much is destroyed: strong and maximum leave coarser cells of what must be hidden and less "
        "detail elsewhere, maximum no colours; light hides less than was measured.",
    ),
]
BackgroundName = Annotated[
    Literal["coarse", "fine"] | None,
    typer.Option(
        "--background",
        help="coarse keeps only people and vehicles sharp, which costs the fewest bits and hides what lies "
        "about. Default: coarse, but fine where --pixels is on.",
        show_default=False,
    ),
]
SealedRegions = Annotated[
    str | None,
    typer.Option(
        "--sealed-regions",
        metavar="COLSxROWS",
        help="Split the sealed original into tiles, so that a grant can open some of them alone. "
        "With --sealed av1, hevc, h264 or ffv1.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam protect in.mp4 -o out.mp4 --recipient custodian.recipient --camera gate.camera",
        "veilcam protect in.avi -o out.mkv -r a.recipient -r b.recipient -c gate.camera --sealed ffv1",
        "veilcam protect in.mp4 -o out.mp4 -r a.recipient -c gate.camera --sealed h264 --sealed-regions 4x3",
    )
    app.command("protect", short_help="Make a protected video that carries its original.", epilog=epilog)(
        protect
    )


def protect(
    source: Annotated[str, typer.Argument(metavar="IN", help="Video file, or images:FOLDER.")],
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="Protected video: .mp4, .mkv, .mov, .ts or .h264."),
    ],
    recipient: RecipientFiles = None,
    camera: CameraFile,
    sealed: SealedMode = None,
    crf: Crf = 26.0,
    sealed_crf: SealedCrf = None,
    sealed_regions: SealedRegions = None,
    pixels: Pixels = None,
    strength: Strengths = "standard",
    background: BackgroundName = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a protected video of IN that carries its encrypted original."""
    from camera.protect_file import protect_file
    from camera.publisher import CodingOptions, pixels_setting
    from codec.regions import parse_split
    from models import background_named, load_protector, strength_named
    from veilcam.cli.key_files import camera_key_from
    from veilcam.cli.paths import different_files, existing_file, new_file

    output = Output(as_json)
    if ":" not in source:
        existing_file(Path(source), "IN")
    new_file(out, force=force)
    different_files(Path(source), out)
    camera_key = camera_key_from(camera)
    epochs = epochs_for(camera_key, recipient or [], sealed, pixels)
    coding = CodingOptions(
        sealed=sealed,
        pixels=pixels,
        crf=crf,
        sealed_crf=sealed_crf,
        sealed_regions=parse_split(sealed_regions) if sealed_regions else None,
    )
    hides = pixels_setting(pixels, has_recipients=epochs is not None, live=False) != "off"
    kept = background_named(background, pixels=hides)
    protector = load_protector(hold=True, strength=strength_named(strength), background=kept)
    with output.progress("protecting") as advance:
        made = protect_file(
            source,
            out,
            protector=protector,
            camera_key=camera_key,
            epochs=epochs,
            coding=coding,
            progress=lambda done, total: advance(done / total if total else 0.0),
        )
    rate = made.pictures / made.seconds if made.seconds else 0.0
    output.say(
        f"{out}: {made.pictures} pictures of {made.width}x{made.height} in {made.segments} segments, "
        f"{made.num_bytes / 1e6:.1f} MB, original sealed as {made.sealed_mode} "
        f"({made.seconds:.1f} s, {rate:.0f} pictures/s on {protector.backend})"
    )
    output.result(
        {
            "ok": True,
            "source": source,
            "out": str(out),
            "pictures": made.pictures,
            "segments": made.segments,
            "width": made.width,
            "height": made.height,
            "sealed_mode": made.sealed_mode,
            "sealed_regions": sealed_regions,
            "pixels": made.pixels,
            "sealed_bytes": made.sealed_bytes,
            "bytes": made.num_bytes,
            "seconds": round(made.seconds, 2),
            "model_id": protector.model_id.hex(),
            "strength": strength,
            "background": str(kept),
            "backend": protector.backend,
        }
    )


def epochs_for(
    camera_key: CameraKey, recipients: list[Path], sealed: Sealed | None, pixels: str | None
) -> EpochRing | None:
    """The epoch ring for the recipients' files; None where nothing is sealed or hidden.

    Raises:
        UsageError: no recipient although something is sealed, or one although nothing is.
    """
    from keys import EpochRing
    from veilcam.cli.key_files import scoped_recipients_from

    if sealed == "none" and pixels in (None, "off"):
        if recipients:
            raise UsageError(
                "--recipient: with --sealed none there is nothing to recover; leave one of them out"
            )
        return None
    if not recipients:
        raise UsageError("--recipient: at least one is needed (veilcam keys recipient NAME makes one)")
    return EpochRing(camera_key.camera_id, scoped_recipients_from(recipients))
