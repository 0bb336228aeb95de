"""``veilcam elf``: detection on edge workers, tried out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from analytics.interface import Detector
    from analytics.pool import PoolOptions, WorkerAddress, WorkerState
    from veilcam.edge.replay import Replay, ReplayOptions

TOKEN_VARIABLE = "VEILCAM_WORKER_TOKEN"  # noqa: S105  # the variable's name, not a token
CaFile = Annotated[
    Path | None,
    typer.Option("--ca-file", metavar="FILE", help="PEM: trust this authority for given workers."),
]

Look = Literal["local", "trusted", "any"]

app = typer.Typer(
    help="Detection spread over edge workers, on protected tiles.",
    epilog=examples("veilcam elf replay out.mp4 --workers 4", "veilcam elf check http://edge-1:8500"),
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Detection spread over edge workers, on protected tiles."""


@app.command(
    "replay",
    short_help="Detect in a clip on workers and show who did what.",
    epilog=examples(
        "veilcam elf replay out.mp4 --workers 4",
        "veilcam elf replay out.mp4 --workers 2 --detector hog -o seen",
        "veilcam elf replay out.mp4 --worker http://edge-1:8500 --worker http://edge-2:8500 --look local",
        "veilcam elf replay out.mp4 --workers 4 --frames 100 --timeline who.png --json",
    ),
)
def replay(
    clip: Annotated[Path, typer.Argument(metavar="CLIP", help="A video; protected first if it is not.")],
    *,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Start so many workers on this machine [2].")
    ] = None,
    worker: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Use this worker instead; repeat for several.")
    ] = None,
    ca_file: CaFile = None,
    detector: Annotated[
        str, typer.Option(help="What started workers run: yolox, yolox:PATH, hog, ...")
    ] = "yolox",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="NAME", help="Write NAME.mp4 and NAME.svg [CLIP's name.elf]."),
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Time line here instead; .png needs matplotlib.")
    ] = None,
    frames: Annotated[int | None, typer.Option(min=1, help="Stop after so many frames.")] = None,
    deadline: Annotated[float, typer.Option(min=10, max=60_000, help="Milliseconds per frame.")] = 2000.0,
    quality: Annotated[int, typer.Option(min=1, max=100, help="JPEG quality of the tiles.")] = 85,
    min_score: Annotated[float, typer.Option(min=0.0, max=1.0, help="Leave out weaker detections.")] = 0.3,
    max_share: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Part of a frame that a worker may see at a time.")
    ] = 1.0,
    look: Annotated[Look, typer.Option(help="Who may look at the whole (small) frame.")] = "any",
    local: Annotated[
        str | None, typer.Option(metavar="DETECTOR", help="Detect here what no worker answers.")
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Send a clip's frames to workers as a camera does, and draw tiles, owners and boxes into a video.

    The time line shows which worker was busy when, and how long every frame took. A bearer token for given
    workers is taken from VEILCAM_WORKER_TOKEN.
    """
    from analytics.detector import DetectorConfig, load_detector
    from base.errors import UsageError
    from veilcam.cli.paths import existing_file, new_file
    from veilcam.edge.replay import ReplayOptions
    from veilcam.edge.timeline import write_timeline

    if workers is not None and worker:
        raise UsageError("--workers starts some, --worker names some: expected one of the two")
    if ca_file is not None and not worker:
        raise UsageError("--ca-file is for workers that --worker names")
    existing_file(clip, "CLIP")
    name = out or Path(f"{clip.stem}.elf")
    video, plot = name.with_name(name.name + ".mp4"), timeline or name.with_name(name.name + ".svg")
    for path in (video, plot):
        new_file(path, force=force)
    pool = _pool_options(deadline, quality, min_score, max_share, look, has_local=local is not None)
    options = ReplayOptions(clip, video, pool, frames)
    config = DetectorConfig(min_score=min_score, threads=1, any_size=True)
    own = None if local is None else load_detector(local, config)
    output = Output(as_json)
    with output.progress("replay") as advance:
        if worker:
            done = _replay(options, _given(worker, ca_file), own, advance)
        else:
            done = _replay_here(options, workers or 2, detector, own, advance)
    write_timeline(
        plot, done.frames, [state.name for state in done.workers], deadline_s=options.pool.deadline_s
    )
    summary = {"ok": True, "clip": str(clip), "video": str(video), "timeline": str(plot), **done.summary()}
    output.result(summary)
    output.say(_text(done, video, plot))


@app.command(
    "check",
    short_help="Try workers: reachable, allowed, ready, how fast.",
    epilog=examples(
        "veilcam elf check http://edge-1:8500 http://edge-2:8500",
        "veilcam elf check --config gate.yaml",
        "VEILCAM_WORKER_TOKEN=$(cat token) veilcam elf check https://edge-1.lan:8500 --ca-file ca.pem",
    ),
)
def check(
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL...", help="Workers.")] = None,
    *,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead: the workers of a camera's settings.")
    ] = None,
    ca_file: CaFile = None,
    wait: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds to wait for them.")] = 6.0,
    as_json: JsonFlag = False,
) -> None:
    """Connect to workers as a camera does, send two grey pictures, and say what came of it.

    Exit status 0 if all of them can be used, else 1. A bearer token for given workers is taken from
    VEILCAM_WORKER_TOKEN.
    """
    from dataclasses import asdict

    from base.errors import UsageError
    from veilcam.edge.trial import try_workers

    if bool(urls) == (config is not None):
        raise UsageError("expected either the URLs of workers or --config")
    if ca_file is not None and config is not None:
        raise UsageError("--ca-file is for URLs; in settings each worker has its own ca_file")
    addresses = _given(urls, ca_file) if urls else _configured(config)
    states = asyncio.run(try_workers(addresses, wait_s=wait))
    good = all(state.state == "closed" for state in states)
    output = Output(as_json)
    output.result({"ok": good, "workers": [asdict(state) for state in states]})
    for state in states:
        output.say(_worker_text(state))
    if not good:
        raise typer.Exit(1)


def _worker_text(state: WorkerState) -> str:
    if state.state != "closed":
        return f"{state.name}: NOT usable: {state.error}"
    return (
        f"{state.name}: {state.model}, {state.speed_pixels_per_s / 1e6:.2f} Mpixel/s, "
        f"{1000 * (state.fixed_s + state.delay_s):.0f} ms per tile besides"
    )


def _configured(config: Path | None) -> list[WorkerAddress]:
    from base.errors import UsageError
    from camera.settings import load_settings
    from veilcam.cli.paths import existing_file

    settings = load_settings(existing_file(config, "--config") if config else None, os.environ)
    edge = settings.workers.options(settings.name)
    if edge is None:
        message = f"{config}: names no workers"
        raise UsageError(message)
    return list(edge.addresses)


def _pool_options(
    deadline_ms: float, quality: int, min_score: float, max_share: float, look: Look, *, has_local: bool
) -> PoolOptions:
    from analytics.elf.types import SMALLEST_CUT_PX, Policy
    from analytics.pool import PoolOptions
    from base.errors import UsageError

    if look == "local" and not has_local:
        raise UsageError("--look local needs --local DETECTOR")
    policy = Policy(max_share=max_share, look=look, smallest_cut_px=SMALLEST_CUT_PX)
    return PoolOptions(deadline_ms / 1000, quality, min_score, "replay", policy)


def _given(urls: Sequence[str], ca_file: Path | None) -> list[WorkerAddress]:
    from analytics.pool import WorkerAddress
    from veilcam.cli.paths import existing_file

    if ca_file is not None:
        existing_file(ca_file, "--ca-file")
    token = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    addresses = [WorkerAddress(url, token=token, ca_file=ca_file) for url in urls]
    for address in addresses:
        address.tls()  # what is no certificate is said before anything else is done
    return addresses


def _replay_here(
    options: ReplayOptions,
    count: int,
    detector: str,
    local: Detector | None,
    advance: Callable[[float], None],
) -> Replay:
    from analytics.pool import WorkerAddress
    from veilcam.edge.processes import ProcessOptions, WorkerProcesses

    with WorkerProcesses([ProcessOptions(detector)] * count) as started:
        addresses = [WorkerAddress(url, f"worker-{n}") for n, url in enumerate(started.urls, 1)]
        return _replay(options, addresses, local, advance)


def _replay(
    options: ReplayOptions,
    addresses: Sequence[WorkerAddress],
    local: Detector | None,
    advance: Callable[[float], None],
) -> Replay:
    from veilcam.cli.signals import stop_event
    from veilcam.edge.replay import replay as run

    async def go() -> Replay:
        return await run(options, addresses, local=local, on_progress=advance, stop=stop_event())

    return asyncio.run(go())


def _text(done: Replay, video: Path, plot: Path) -> str:
    median_ms, p95_ms = done.latency_ms(50), done.latency_ms(95)
    labels = ", ".join(f"{label} {count}" for label, count in done.labels().most_common())
    lines = [
        f"{len(done.frames)} frames, latency median {median_ms:.1f} ms, p95 {p95_ms:.1f} ms",
        f"found: {labels or 'nothing'}",
    ]
    lines += [
        f"{state.name}: {state.answered} tiles, {state.late} late, {state.failed + state.lied} failed,"
        f" {state.sent_bytes / 1e6:.2f} MB"
        for state in done.workers
    ]
    return "\n".join([*lines, f"video:    {video}", f"timeline: {plot}"])
