"""``veilcam worker``."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from analytics.worker.options import WorkerOptions


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam worker --detector hog",
        "veilcam worker --grpc 127.0.0.1:8501 --detector yolox --detector fast=hog --model raw=yolox.onnx",
        "veilcam worker --listen 0.0.0.0:8500 --token-file token --tls-cert w.pem --tls-key w.key",
        "veilcam worker --listen 0.0.0.0:8500 --tls-cert w.pem --tls-key w.key --tls-client-ca cameras.pem",
    )
    app.command("worker", short_help="Detect in tiles that cameras send.", epilog=epilog)(worker)


def worker(
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="REST, health and /metrics; port 0: any free one.")
    ] = "127.0.0.1:8500",
    grpc: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Also gRPC (extra 'worker').")] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]SPEC", help="yolox, yolox:PATH, hog, ...; repeat. The first is 'detector'."
        ),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]PATH", help="ONNX file, served as it is; repeat.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bearer token; else VEILCAM_TOKEN.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM: the worker's certificate.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="PEM: its private key.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM: clients must show a certificate it signed.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines in without token or client certificates.")
    ] = False,
    queue: Annotated[int, typer.Option(min=1, max=1024, help="Requests that wait, of all cameras.")] = 16,
    queue_per_camera: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Of them from one camera; default: half of them.")
    ] = None,
    cameras_per_client: Annotated[
        int,
        typer.Option(min=1, max=1024, help="Cameras of one address with turns of their own; more share one."),
    ] = 16,
    threads: Annotated[int, typer.Option(min=1, max=256, help="CPU threads of one inference.")] = 1,
    max_side: Annotated[
        int | None, typer.Option(min=32, max=4096, help="Scale larger pictures down, for the network.")
    ] = None,
    min_score: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The weakest detection a request can ask for.")
    ] = 0.05,
    max_body_mib: Annotated[int, typer.Option(min=1, max=256, help="Largest request in MiB.")] = 32,
    drain: Annotated[
        float, typer.Option(min=0.0, max=600.0, help="Seconds that waiting work may take at the end.")
    ] = 10.0,
    as_json: JsonFlag = False,
) -> None:
    """Serve detectors to cameras and other clients over the Open Inference Protocol, version 2.

    A worker sees tiles of protected pictures only, and needs no key. Late work is dropped, not done; cameras
    take turns. It ends at Ctrl-C or SIGTERM: not ready at once, then what waits is finished. With --json one
    line tells the addresses when it is ready, and one what was done at the end.
    """
    from analytics.oip import Limits
    from analytics.worker.engine import EngineOptions
    from analytics.worker.options import Served, TlsFiles, WorkerOptions
    from base.access import ListenAddress, find_token
    from base.errors import UsageError

    tls = None
    if tls_cert is not None and tls_key is not None:
        tls = TlsFiles(tls_cert, tls_key, tls_client_ca)
    elif tls_cert is not None or tls_key is not None or tls_client_ca is not None:
        raise UsageError("TLS: expected --tls-cert and --tls-key together")
    options = WorkerOptions(
        listen=ListenAddress.parse(listen, 8500),
        grpc=None if grpc is None else ListenAddress.parse(grpc, 8501),
        detectors=tuple(Served.detector(text) for text in detector or ()),
        models=tuple(Served.model(text) for text in model or ()),
        token=find_token(token_file, os.environ),
        tls=tls,
        insecure=insecure,
        engine=EngineOptions(queue, queue_per_camera, cameras_per_client),
        limits=Limits(body_bytes=max_body_mib << 20),
        threads=threads,
        max_side=max_side,
        min_score=min_score,
        drain_s=drain,
    )
    asyncio.run(_serve(options, Output(as_json)))


async def _serve(options: WorkerOptions, output: Output) -> None:
    from analytics.worker.server import Worker
    from veilcam.cli.signals import stop_event

    stop = stop_event()
    with output.progress("weights") as advance:
        worker = Worker(options, progress=lambda done, total: advance(done / total))
    starting = asyncio.ensure_future(worker.start())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            models = list(worker.engine.models)
            grpc = worker.grpc_address
            output.say(
                f"worker: {worker.url}"
                + (f"\ngRPC:   {grpc}" if grpc else "")
                + f"\nmodels: {', '.join(models)}"
            )
            output.event({"event": "ready", "url": worker.url, "grpc": grpc, "models": models})
            await stopping
    finally:
        for task in (starting, stopping):
            task.cancel()
        given_up = await worker.stop()
    output.say("ended" + (f": {given_up} requests were given up" if given_up else ""))
    output.event({"event": "ended", "ok": True, "given_up": given_up})
