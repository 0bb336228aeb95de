"""The tree of commands."""

from __future__ import annotations

import typer

from veilcam.cli import (
    audit,
    camera,
    case,
    config,
    decode,
    demo,
    detect,
    doctor,
    elf,
    evaluate,
    grant,
    keys,
    lift,
    protect,
    subscribe,
    train,
    verify,
    version,
    worker,
)
from veilcam.cli.options import examples

app = typer.Typer(
    name="veilcam",
    help="Protected camera video that plays anywhere and, with the key, comes back exactly.",
    epilog=examples(
        "veilcam demo",
        "veilcam keys recipient custodian && veilcam keys camera gate",
        "veilcam protect in.mp4 -o out.mp4 --recipient custodian.recipient --camera gate.camera",
        "veilcam verify out.mp4 --camera gate.pub",
        "veilcam decode out.mp4 -o back.mp4 --identity custodian.identity",
    )
    + "\n\n\b\nExit status:\n  0 ok  1 failure  2 usage  3 integrity  4 no or wrong key",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

for module in (demo, protect, detect, subscribe, verify, decode, lift, worker, evaluate, doctor, version):
    module.register(app)
app.add_typer(keys.app, name="keys")
app.add_typer(case.app, name="case")
app.add_typer(camera.app, name="camera")
app.add_typer(config.app, name="config")
app.add_typer(grant.app, name="grant")
app.add_typer(audit.app, name="audit")
app.add_typer(elf.app, name="elf")
app.add_typer(train.app, name="train")
