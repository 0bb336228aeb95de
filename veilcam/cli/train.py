"""``veilcam train``: hand over to the training code, which needs the extra ``train``."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

import typer

from base.errors import MissingDependency
from veilcam.cli.logs import configure_logging
from veilcam.cli.options import examples

app = typer.Typer(help="Train the networks (needs the extra `train`).", no_args_is_help=True)

# Its arguments are the training code's own: without the extra there is nothing to parse them for.
_HANDED_OVER = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _handed_over(
    name: str, short_help: str, example: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return app.command(
        name,
        short_help=short_help,
        context_settings=_HANDED_OVER,
        add_help_option=False,
        epilog=examples(example),
    )


@_handed_over("protector", "Train the protector and export its weights.", "veilcam train protector --help")
def protector(context: typer.Context) -> int:
    """Train the protector and export its weights; arguments go to models.train unchanged."""
    return _hand_over(["protector", *context.args])


@_handed_over(
    "pixels", "Train the pixel path's networks and export their weights.", "veilcam train pixels --help"
)
def pixels(context: typer.Context) -> int:
    """Train the networks that hide the original in the picture; arguments go to models.train unchanged."""
    return _hand_over(["pixels", *context.args])


@_handed_over(
    "regions",
    "Train the edge pool's region predictor and export its weights.",
    "veilcam train regions --boxes street.jsonl yard.jsonl --out regions",
)
def regions(context: typer.Context) -> int:
    """Train the attention LSTM on what `veilcam detect` wrote; arguments go to models.train unchanged."""
    return _hand_over(context.args, module="models.train.regions_command")


@_handed_over(
    "quantize",
    "Add an 8-bit gate network to a protector's weights.",
    "veilcam train quantize --weights run1/weights --pictures coco --check street",
)
def quantize(context: typer.Context) -> int:
    """Add an 8-bit gate network, checked against the float one; arguments go to models.train unchanged."""
    return _hand_over(context.args, module="models.train.quantize", needs="onnx")


@_handed_over(
    "face",
    "Average faces to the one that is drawn for everybody.",
    "veilcam train face --faces lfw_aligned --out face",
)
def face(context: typer.Context) -> int:
    """Average aligned faces; arguments go to models.train unchanged."""
    return _hand_over(context.args, module="models.train.mean_face")


@_handed_over(
    "objects",
    "Bring YOLOX's published graph into the form that finds people and vehicles in the camera.",
    "veilcam train objects --yolox yolox_nano.onnx --out objects",
)
def objects(context: typer.Context) -> int:
    """Convert YOLOX for the camera; arguments go to models.train unchanged."""
    return _hand_over(context.args, module="models.train.object_finder", needs="onnx")


def _hand_over(arguments: list[str], *, module: str = "models.train.command", needs: str = "torch") -> int:
    if importlib.util.find_spec(needs) is None:
        raise MissingDependency(f"`veilcam train` needs {needs}: pip install 'veilcam[train]'")
    configure_logging("info")
    return int(importlib.import_module(module).main(arguments) or 0)
