"""``veilcam train regions``: from detections over time to the region predictor's weights with a card."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from models.train.regions import RegionTraining, train_regions

_EXAMPLE = """example:
  veilcam detect street.mp4 -o boxes/street.jsonl; veilcam detect yard.mp4 -o boxes/yard.jsonl
  veilcam train regions --boxes boxes/street.jsonl boxes/yard.jsonl --out regions

Takes a few minutes on one CPU thread. OUT/weights holds the weights and their card.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, train, export; 0 when the weights are written."""
    parser = argparse.ArgumentParser(
        prog="veilcam train regions",
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--boxes", type=Path, nargs="+", required=True, help="JSON Lines of `veilcam detect`")
    parser.add_argument("--out", type=Path, required=True, help="folder for weights/")
    defaults = RegionTraining((), Path())
    parser.add_argument("--steps", type=int, default=defaults.steps)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parsed = parser.parse_args(arguments)
    settings = RegionTraining(tuple(parsed.boxes), parsed.out, steps=parsed.steps, seed=parsed.seed)
    card = train_regions(settings, _tell)
    result = {"weights": str(parsed.out / "weights"), **card["training"]}
    print(json.dumps(result) if parsed.json else f"weights and card: {result['weights']}")
    return 0


def _tell(share: float, losses: dict[str, float]) -> None:
    text = ", ".join(f"{name} {value:.4f}" for name, value in losses.items())
    print(f"{share:4.0%} {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
