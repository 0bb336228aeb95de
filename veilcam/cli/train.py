"""``veilcam train``: hand over to the training code, which needs the extra ``train``."""

from __future__ import annotations

import importlib
import importlib.util

import typer

from base.errors import MissingDependency
from veilcam.cli.logs import configure_logging
from veilcam.cli.options import examples

app = typer.Typer(help="Train the networks (needs the extra `train`).", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `protector` a command of its own although it is the only one so far."""


@app.command(
    "protector",
    short_help="Train the protector and export its weights.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
    epilog=examples("veilcam train protector --help"),
)
def protector(context: typer.Context) -> int:
    """Train the protector and export its weights; arguments go to models.train unchanged."""
    if importlib.util.find_spec("torch") is None:
        raise MissingDependency("training needs torch: pip install 'veilcam[train]'")
    configure_logging("info")
    module = importlib.import_module("models.train.command")
    return int(module.main(context.args) or 0)
