"""``veilcam camera``: run a camera."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilcam.cli.options import JsonFlag, RecipientFiles, examples
from veilcam.cli.output import Output
from veilcam.cli.protect import BackgroundName, SealedMode, SealedRegions, StrengthName

if TYPE_CHECKING:
    from camera.pipeline import Pipeline
    from camera.service import CameraService, ServiceOptions
    from camera.settings import CameraSettings

app = typer.Typer(
    help="Run a camera.",
    epilog=examples("veilcam camera run --source /dev/video0 -r custodian.recipient -c gate.camera"),
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Run a camera."""


@app.command(
    "run",
    short_help="Protect, show and record a live source.",
    epilog=examples(
        "veilcam camera run --source /dev/video0 --recipient custodian.recipient --camera gate.camera",
        "veilcam camera run --source rtsp://10.0.0.5/1 -r a.recipient -c gate.camera --record video",
        "veilcam camera run --source in.mp4 --loop -r custodian.recipient -c gate.camera --listen :0",
        "veilcam camera run --config gate.yaml --publish whip://media.example/gate --rtsp 127.0.0.1:8554",
        "VEILCAM_TOKEN=... veilcam camera run --config gate.yaml --listen 0.0.0.0:8080",
    ),
)
def run(
    *,
    source: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Device, URL, file, images:FOLDER, synthetic: or whip: (pushed)."),
    ] = None,
    recipient: RecipientFiles = None,
    camera: Annotated[
        Path | None, typer.Option("--camera", "-c", metavar="FILE", help="NAME.camera file that signs.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of page and WHEP [127.0.0.1:8080].")
    ] = None,
    record: Annotated[Path | None, typer.Option(metavar="DIR", help="Record into this folder.")] = None,
    publish: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Also push to whip(s)://, rtsp(s):// or srt://...; repeatable."),
    ] = None,
    rtsp: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Also serve RTSP here, for recorders that pull.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings (YAML); options win over it.")
    ] = None,
    sealed: SealedMode = None,
    sealed_regions: SealedRegions = None,
    crf: Annotated[
        float | None,
        typer.Option(min=0, max=51, help="Quality of the protected picture [26]; lower is better."),
    ] = None,
    strength: Annotated[
        StrengthName | None, typer.Option("--strength", help="How much is destroyed [standard].")
    ] = None,
    background: BackgroundName = None,
    loop: Annotated[bool, typer.Option("--loop", help="Begin a file again at its end.")] = False,
    name: Annotated[str | None, typer.Option(help="Name on the page and of recordings.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Access token; else VEILCAM_TOKEN. Needed beyond loopback."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Protect a live source, show it over WebRTC and record it, until Ctrl-C or SIGTERM.

    The page is at the address of --listen, the WHEP endpoint at /whep; /healthz, /readyz and /metrics are for
    supervision. With --json one line is printed when it is ready and one when it has ended. VEILCAM_LOG sets
    the log level (warning).
    """
    from camera.service import serve_camera
    from camera.settings import load_settings
    from veilcam.cli.logs import configure_logging
    from veilcam.cli.paths import existing_file

    configure_logging("warning")
    output = Output(as_json)
    overrides = _given(
        source=source,
        recipients=[str(path) for path in recipient] if recipient else None,
        camera=str(camera) if camera else None,
        loop=loop or None,
        name=name,
        strength=strength,
        background=background,
        coding=_given(sealed=sealed, sealed_regions=sealed_regions, crf=crf),
        record=_given(folder=str(record) if record else None),
        http=_given(listen=listen, token_file=str(token_file) if token_file else None),
        publish=publish or None,
        rtsp=_given(listen=rtsp),
    )
    settings = load_settings(existing_file(config, "--config") if config else None, os.environ, overrides)
    pipeline, options = _prepare(settings)
    serve_camera(pipeline, options, on_ready=lambda ready: _announce(ready, output))
    stats = pipeline.stats()
    output.say(f"ended: {stats.frames_out} pictures in {stats.segments} segments")
    output.event({"event": "ended", "ok": True, "pictures": stats.frames_out, "segments": stats.segments})


def _prepare(settings: CameraSettings) -> tuple[Pipeline, ServiceOptions]:
    from camera.access import ListenAddress, find_token
    from camera.http import HttpOptions
    from camera.pipeline import Pipeline, PipelineOptions
    from camera.publisher import pixels_setting
    from camera.service import ServiceOptions
    from camera.sources import open_source
    from camera.sources.pushed import PushedSource
    from keys import EpochRing
    from models import background_named, load_protector, strength_named
    from veilcam.cli.key_files import camera_key_from, scoped_recipients_from

    camera_key = camera_key_from(settings.camera)
    recipients = scoped_recipients_from(settings.recipients)
    token = find_token(settings.http.token_file, os.environ)
    ingest_file = settings.http.ingest_token_file
    http = HttpOptions(
        ListenAddress.parse(settings.http.listen),
        token,
        ingest_token=find_token(ingest_file, {}) if ingest_file is not None else None,
        ice_servers=tuple(server.server() for server in settings.http.ice_servers),
    )
    publish = tuple(target.target() for target in settings.publish)
    rtsp = settings.rtsp.options()
    nothing_sealed = settings.coding.sealed == "none"
    epochs = (
        None
        if nothing_sealed
        else EpochRing(camera_key.camera_id, recipients, epoch_s=settings.segments.epoch_s)
    )
    source = open_source(
        settings.source,
        loop=settings.loop,
        realtime=settings.realtime,
        options=settings.source_options,
        open_timeout_s=settings.open_timeout_s,
        read_timeout_s=settings.read_timeout_s,
    )
    pixels = pixels_setting(settings.coding.pixels, has_recipients=epochs is not None, live=True)
    pipeline = Pipeline(
        source,
        load_protector(
            threads=settings.protector_threads,
            refresh=settings.protector_refresh,
            hold=settings.protector_hold,
            strength=strength_named(settings.strength),
            background=background_named(settings.background, pixels=pixels != "off"),
        ),
        camera_key,
        epochs,
        PipelineOptions(settings.coding_options(), settings.queue_frames),
    )
    options = ServiceOptions(
        name=settings.name,
        http=http,
        max_viewers=settings.http.max_viewers,
        record=settings.recorder_options(),
        events=settings.event_targets(),
        publish=publish,
        rtsp=rtsp,
        ingest=source if isinstance(source, PushedSource) else None,
        edge=settings.workers.options(settings.name),
    )
    return pipeline, options


def _given(**values: Any) -> dict[str, Any] | None:  # noqa: ANN401  # whatever the settings take
    return {name: value for name, value in values.items() if value is not None} or None


def _announce(service: CameraService, output: Output) -> None:
    output.say(f"page:  {service.url}")
    output.say(f"WHEP:  {service.whep_url}")
    if service.options.record is not None:
        output.say(f"files: {service.options.record.folder}")
    if service.rtsp is not None:
        output.say(f"RTSP:  {service.rtsp.url}")
    if service.push_url is not None:
        output.say(f"push:  {service.push_url}")
    for target in service.options.publish:
        output.say(f"to:    {target.name}")
    output.say("Ctrl-C ends it")
    ready: dict[str, object] = {"event": "ready", "url": service.url, "whep": service.whep_url}
    if service.rtsp is not None:
        ready["rtsp"] = service.rtsp.url
    if service.push_url is not None:
        ready["whip"] = service.push_url
    output.event(ready)
