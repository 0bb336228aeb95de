"""``veilcam train protector``: from folders of pictures to weights with a card."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from models.train.export import export_protector
from models.train.protector import ProtectorTrainer, ProtectorTraining

_EXAMPLE = """example:
  veilcam train protector --pictures coco/train street/ plates/ --faces lfw_aligned --cartoons cartoon \\
      --teacher yolox_nano.onnx --face-finder face_detection_yunet.onnx --minutes 60 --out run1

Run it again with the same --out to continue. The weights land in OUT/weights.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, train or continue, export; 0 when the weights are written."""
    parsed = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    settings = ProtectorTraining(
        pictures=tuple(parsed.pictures),
        faces=parsed.faces,
        cartoons=parsed.cartoons,
        teacher=parsed.teacher,
        face_finder=parsed.face_finder,
        out=parsed.out,
        face_identities=parsed.face_identities,
        minutes=parsed.minutes,
        batch=parsed.batch,
        seed=parsed.seed,
        threads=parsed.threads,
    )
    trainer = ProtectorTrainer(settings)
    if trainer.resume():
        logging.getLogger(__name__).info("continuing %s", parsed.out / "checkpoint.pt")
    _run(trainer)
    described = trainer.described()
    export_protector(trainer.generator, parsed.out / "weights", described)
    result = {"weights": str(parsed.out / "weights"), **described["training"]}
    print(json.dumps(result) if parsed.json else f"weights and card: {result['weights']}")
    return 0


def _run(trainer: ProtectorTrainer) -> None:
    """Train under a progress bar; on a pipe, a line of losses every now and then."""
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
                logging.getLogger(__name__).info("%3.0f %% %s", 100 * share, text)

        trainer.run(show)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="veilcam train protector",
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def add(name: str, text: str, **options: Any) -> None:  # noqa: ANN401  (as argparse has it)
        parser.add_argument(name, help=text, **options)

    add("--pictures", "folders of pictures and videos", type=Path, nargs="+", required=True)
    add("--faces", "aligned 112x112 face crops, one folder per person", type=Path, required=True)
    add("--cartoons", "frames of the style to imitate", type=Path, required=True)
    add("--teacher", "YOLOX ONNX whose detections must survive", type=Path, required=True)
    add("--face-finder", "YuNet ONNX that labels the pictures", type=Path, required=True)
    add("--out", "folder for checkpoint, cache and weights", type=Path, required=True)
    add("--face-identities", "use the first N people, keep the others for evaluation", type=int, default=120)
    add("--minutes", "training time in all, continued runs included", type=float, default=60.0)
    add("--batch", "crops per step", type=int, default=4)
    add("--seed", "of everything random", type=int, default=1)
    add("--threads", "of torch", type=int, default=2)
    add("--json", "print the result as JSON", action="store_true")
    return parser
