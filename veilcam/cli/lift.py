"""``veilcam lift``."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from base.errors import UsageError
from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from forensics.lift import Lifted, LiftOptions
    from keys.source import KeySource

TOKEN_VARIABLE = "VEILCAM_TOKEN"  # noqa: S105  # the variable's name, not a token
_DURATION = re.compile(r"(\d{1,5}(?:\.\d+)?)([smh]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam lift http://127.0.0.1:8080/whep -i custodian.identity --reason 'search for child, 15:40'",
        "veilcam lift https://gate.example/whep -i iris.identity --grant gate.grant --reason R --for 5m",
    )
    app.command("lift", short_help="Watch the original of a live stream, for a while.", epilog=epilog)(lift)


def lift(
    url: Annotated[str, typer.Argument(metavar="URL", help="The camera's WHEP endpoint, or rtsp, srt.")],
    *,
    identity: Annotated[
        list[Path],
        typer.Option("--identity", "-i", metavar="FILE", help="NAME.identity file; repeat to try several."),
    ],
    reason: Annotated[str, typer.Option(help="Why it is opened; goes into the ledger.")],
    grant: Annotated[
        Path | None,
        typer.Option("--grant", "-g", metavar="FILE", help="Grant made out to the identity."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Custody policy the grant must satisfy.", envvar="VEILCAM_CUSTODY"),
    ] = None,
    revocation: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Revocation to heed; repeatable.")
    ] = None,
    camera: Annotated[
        Path | None,
        typer.Option("--camera", "-c", metavar="FILE", help="NAME.pub: show nothing that it did not sign."),
    ] = None,
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="End after so long: 90s, 10m, 1h; at most 8h.")
    ] = "10m",
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0: any free one.")] = 0,
    case: Annotated[str, typer.Option(help="Case number; goes into the ledger.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Open the sealed layer of a live stream in memory and show the original on this machine only.

    Nothing is written to a disk. The page's address, with a secret in it, is printed when there is something
    to see. It ends after --for, at Ctrl-C or SIGTERM; start and end are in the ledger (VEILCAM_LEDGER). A
    token for the URL is taken from VEILCAM_TOKEN. What is shown is one segment (2 s) behind.
    """
    from forensics.lift import LiftOptions
    from forensics.opening import Purpose
    from keys.source import as_key_source
    from veilcam.cli.grant_files import opened_grant
    from veilcam.cli.key_files import camera_public_from, identities_from

    output = Output(as_json)
    seconds = parse_duration(duration)
    public = camera_public_from(camera) if camera else None
    options = LiftOptions(seconds, Purpose(reason, case), public)
    identities = identities_from(identity)
    keys: KeySource = as_key_source(identities)
    if grant is not None:
        keys = opened_grant(grant, identities, policy, revocation or [])
    lifted = asyncio.run(_run(url, keys, options, port, output))
    output.say(
        f"ended: {len(lifted.opened)} segments opened, {lifted.refused} not ours, {lifted.withheld} bad"
    )
    output.event({"event": "ended", "ok": True, "camera": lifted.camera_id, **lifted.as_json()})


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``10m`` or ``1h``.

    Raises:
        UsageError: anything else.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        message = f"--for: expected a time such as 90s, 10m or 1h, got {text!r}"
        raise UsageError(message)
    return float(match[1]) * _UNITS[match[2]]


async def _run(url: str, keys: KeySource, options: LiftOptions, port: int, output: Output) -> Lifted:
    from analytics.subscribe import SubscribeOptions, subscribe
    from codec.unseal import OpenedSegment
    from forensics.ledger import Ledger, default_ledger_path
    from forensics.lift import Lift
    from veilcam.cli.signals import stop_event
    from veilcam.lift_server import LiftServer

    stop = stop_event()
    server = LiftServer(port)
    await server.start()
    announced = False

    async def show(opened: OpenedSegment) -> None:
        nonlocal announced
        if not announced:
            announced = True
            output.say(f"original: {server.url}\nends by itself after {options.seconds:g} s; Ctrl-C ends it")
            output.event({"event": "ready", "url": server.url})
        await server.show(opened)

    stream = subscribe(
        url, token=os.environ.get(TOKEN_VARIABLE) or None, options=SubscribeOptions(layer="sealed")
    )
    try:
        return await Lift(keys, Ledger(default_ledger_path()), options).run(stream, show, stop=stop)
    finally:
        await server.close()
