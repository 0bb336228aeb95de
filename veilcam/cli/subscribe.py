"""``veilcam subscribe``."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from analytics.subscribe import Subscription
    from veilcam.subscriber import Received, UnitDetector, UnitRecorder

TOKEN_VARIABLE = "VEILCAM_TOKEN"  # noqa: S105  # the variable's name, not a token


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam subscribe http://127.0.0.1:8080/whep --seconds 10",
        "veilcam subscribe https://gate.example/whep --layer sealed --record gate.mp4",
        "veilcam subscribe rtsp://nvr.example:8554/gate --record gate.mkv --detect yolox-tiny",
    )
    app.command("subscribe", short_help="Receive a live stream as it was encoded.", epilog=epilog)(subscribe)


def subscribe(
    url: Annotated[str, typer.Argument(metavar="URL", help="WHEP endpoint (http, https), rtsp, srt or udp.")],
    *,
    record: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write .mp4, .mkv, .ts or .h264, not transcoded, SEI kept."),
    ] = None,
    detect: Annotated[
        str | None, typer.Option(metavar="DETECTOR", help="Also detect; one JSON line per picture.")
    ] = None,
    layer: Annotated[
        Literal["protected", "sealed"],
        typer.Option(help="sealed: ask a WHEP endpoint to leave the encrypted original in."),
    ] = "protected",
    rendition: Annotated[
        Literal["auto", "main", "sub"],
        typer.Option(help="WHEP: main, sub, or auto by loss and delay; --record takes main."),
    ] = "auto",
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Stop after so long.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bearer token; else VEILCAM_TOKEN.")
    ] = None,
    reconnect: Annotated[
        bool, typer.Option("--reconnect/--no-reconnect", help="Open the stream again when it breaks off.")
    ] = True,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Receive a protected stream without decoding it; record it, or detect in it.

    It runs until Ctrl-C, SIGTERM or --seconds. Needs no key: what is recorded can be verified with the
    camera's public key and, with --layer sealed, be decoded by whoever may.
    """
    from analytics.subscribe import SubscribeOptions
    from analytics.subscribe import subscribe as open_subscription
    from veilcam.cli.paths import new_file
    from veilcam.subscriber import UnitRecorder

    if record is not None:
        new_file(record, force=force)
    output = Output(as_json)
    options = SubscribeOptions(
        layer=layer, rendition="main" if record and rendition == "auto" else rendition, reconnect=reconnect
    )
    detector = _detector(detect, output)
    recorder = UnitRecorder(record) if record is not None else None
    token = _token(token_file)

    async def run() -> tuple[Subscription, Received]:
        stream = open_subscription(url, token=token, options=options)
        return stream, await _receive(stream, recorder, detector, seconds)

    with ExitStack() as stack:
        if detector is not None:
            stack.callback(detector.close)
        if recorder is not None:
            stack.callback(recorder.close)
        stream, counts = asyncio.run(run())
    files = [str(path) for path in recorder.paths] if recorder is not None else []
    output.say(
        f"{counts.units} pictures, {counts.bytes} bytes, {counts.key_frames} key frames, {counts.gaps} gaps;"
        f" signed {counts.signed}, sealed {counts.sealed}" + "".join(f"\nfile: {name}" for name in files)
    )
    output.event(
        {
            "ok": True,
            "pictures": counts.units,
            "bytes": counts.bytes,
            "key_frames": counts.key_frames,
            "signed": counts.signed,
            "sealed": counts.sealed,
            "gaps": counts.gaps,
            "dropped": stream.num_dropped,
            "reconnects": stream.num_reconnects,
            "detections": dict(detector.found) if detector is not None else None,
            "files": files,
        }
    )


async def _receive(
    stream: Subscription, recorder: UnitRecorder | None, detector: UnitDetector | None, seconds: float | None
) -> Received:
    """Receive until the end or the first signal; the second signal has its usual effect."""
    from veilcam.cli.signals import stop_event
    from veilcam.subscriber import receive

    return await receive(stream, recorder=recorder, detector=detector, seconds=seconds, stop=stop_event())


def _detector(name: str | None, output: Output) -> UnitDetector | None:
    if name is None:
        return None
    from analytics.detector import load_detector
    from veilcam.subscriber import UnitDetector

    with output.progress("weights") as advance:
        model = load_detector(name, progress=lambda done, total: advance(done / total))
    return UnitDetector(model, lambda line: print(line, file=sys.stdout, flush=True))


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    from base.errors import UsageError
    from base.files import read_bounded

    try:
        return read_bounded(path, 1024).decode("utf-8", "replace").strip()
    except OSError as error:
        message = f"--token-file {path}: {error.strerror}"
        raise UsageError(message) from error
