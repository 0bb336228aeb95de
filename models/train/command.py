"""``veilcam train protector`` and ``pixels``: from folders of pictures to weights with a card."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from models.train import run
from models.train.export import export_protector
from models.train.export_pixels import export_pixels
from models.train.pixels import SETTINGS, PixelTrainer, PixelTraining
from models.train.protector import ProtectorTrainer, ProtectorTraining

_EXAMPLE = """examples:
  veilcam train protector --pictures coco/train street/ plates/ --faces lfw_aligned --cartoons cartoon \\
      --teacher yolox_nano.onnx --face-finder face_detection_yunet.onnx --minutes 120 --out protector
  veilcam train pixels --setting high --protector protector/checkpoint.pt --pictures coco/train street/ \\
      --faces lfw_aligned --face-finder face_detection_yunet.onnx --minutes 90 --out high

Run it again with the same --out to continue. OUT holds weights/ to use, checkpoint.pt to continue from,
figures.png (how the losses went) and sheet.jpg (what the networks draw), renewed every five minutes.
"""


class _Trainer(run.Trainer, Protocol):
    def resume(self) -> bool: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, train or continue, export; 0 when the weights are written."""
    parsed = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    described = _train_pixels(parsed) if parsed.what == "pixels" else _train_protector(parsed)
    result = {"weights": str(parsed.out / "weights"), **described["training"]}
    print(json.dumps(result) if parsed.json else f"weights and card: {result['weights']}")
    return 0


def _common(parsed: argparse.Namespace) -> dict[str, Any]:
    """The settings that both trainings have."""
    names = ("faces", "face_finder", "out", "face_identities", "minutes", "batch", "seed", "threads")
    return {"pictures": tuple(parsed.pictures), **{name: getattr(parsed, name) for name in names}}


def _train_protector(parsed: argparse.Namespace) -> dict[str, Any]:
    settings = ProtectorTraining(
        cartoons=parsed.cartoons, teacher=parsed.teacher, start=parsed.start, **_common(parsed)
    )
    trainer = ProtectorTrainer(settings)
    _run(trainer, parsed)
    described = trainer.described()
    export_protector(trainer.averaged_generator(), parsed.out / "weights", described)
    return described


def _train_pixels(parsed: argparse.Namespace) -> dict[str, Any]:
    settings = PixelTraining(setting=parsed.setting, protector=parsed.protector, **_common(parsed))
    trainer = PixelTrainer(settings)
    _run(trainer, parsed)
    described = trainer.described()
    export_pixels(trainer.averaged_networks(), parsed.setting, parsed.out / "weights", described)
    return described


def _run(trainer: _Trainer, parsed: argparse.Namespace) -> None:
    """Train under a progress bar; on a pipe, a line of losses every now and then."""
    log = logging.getLogger(__name__)
    if trainer.resume():
        log.info("continuing %s", parsed.out / "checkpoint.pt")
    console = Console(stderr=True)
    columns = (
        TextColumn("training"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[losses]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=1.0, losses="")

        def show(share: float, losses: dict[str, float]) -> None:
            text = " ".join(f"{name} {value:.3g}" for name, value in losses.items())
            bar.update(task, completed=share, losses=text)
            if not console.is_terminal:
                log.info("%3.0f %% %s", 100 * share, text)

        run.run_for(trainer, parsed.out, parsed.minutes, show)


def _parser() -> argparse.ArgumentParser:
    options: dict[str, Any] = {
        "description": __doc__,
        "epilog": _EXAMPLE,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }
    parser = argparse.ArgumentParser(prog="veilcam train", **options)
    parts = parser.add_subparsers(dest="what", required=True)
    protector = parts.add_parser("protector", help="the network that draws the protected picture", **options)
    _add(protector, "--cartoons", "frames of the style to imitate", type=Path, required=True)
    _add(protector, "--teacher", "YOLOX ONNX whose detections must survive", type=Path, required=True)
    _add(protector, "--start", "protector-v3.safetensors to go on from", type=Path)
    _add_common(protector, batch=4)
    pixels = parts.add_parser("pixels", help="the networks that hide the original in the picture", **options)
    _add(pixels, "--setting", "which of them", choices=sorted(SETTINGS), required=True)
    _add(pixels, "--protector", "checkpoint.pt of a protector's training", type=Path, required=True)
    _add_common(pixels, batch=5)
    return parser


def _add(parser: argparse.ArgumentParser, name: str, text: str, **options: Any) -> None:  # noqa: ANN401
    parser.add_argument(name, help=text, **options)


def _add_common(parser: argparse.ArgumentParser, *, batch: int) -> None:
    _add(parser, "--pictures", "folders of pictures and videos", type=Path, nargs="+", required=True)
    _add(parser, "--faces", "aligned 112x112 face crops, one folder per person", type=Path, required=True)
    _add(parser, "--face-finder", "YuNet ONNX that labels the pictures", type=Path, required=True)
    _add(parser, "--out", "folder for checkpoint, cache, pictures and weights", type=Path, required=True)
    _add(
        parser,
        "--face-identities",
        "use the first N people, keep the others for evaluation",
        type=int,
        default=120,
    )
    _add(parser, "--minutes", "training time in all, continued runs included", type=float, default=60.0)
    _add(parser, "--batch", "crops per step", type=int, default=batch)
    _add(parser, "--seed", "of everything random", type=int, default=1)
    _add(parser, "--threads", "of torch", type=int, default=2)
    _add(parser, "--json", "print the result as JSON", action="store_true")
