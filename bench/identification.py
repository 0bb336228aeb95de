"""Rank-1 face identification of any transform, by an off-the-shelf recogniser; one table, no report.

    python -m bench.identification --data DATA [--first 120] [--transform protector] [--sides 48 80]

DATA is laid out as docs/evaluation.md says (faces/lfw_aligned_112 and images/street are used). `veilcam
evaluate --only privacy` measures the protector with trained attackers as well; this is for trying out other
transforms: ``protector[:FOLDER]`` or MODULE:FUNCTION, as in bench.detection.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analytics.interface import Image
from base.errors import UsageError
from bench.detection import open_transform
from evaluation.camera import Camera, CodedPicture
from evaluation.data import DataFolder
from evaluation.faces import SIDES, Face, people, through_camera
from evaluation.identify import attempt, identification_row
from evaluation.recogniser import DlibRecogniser, distances


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """All sizes; clear as the upper bound, naive and parrot."""
    folk = people(DataFolder(arguments.data), first_unseen=arguments.first, limit=arguments.probes)
    if folk is None:
        raise UsageError(f"{arguments.data}: needs faces/lfw_aligned_112 and images/street")
    recognise, transform, camera = DlibRecogniser(), open_transform(arguments.transform), Camera()

    def transformed(image: Image) -> CodedPicture:
        return camera.clear_still(transform(image))

    owners = [face.owner for face in folk.probes]
    gallery = recognise.describe([face.crop for face in folk.gallery])
    report: dict[str, Any] = {"people": len(folk.gallery), "sides": {}}
    for side in arguments.sides:

        def look(faces: Sequence[Face], *, clear: bool = False, side: int = side) -> list[Image]:
            see = camera.clear_still if clear else transformed
            return through_camera(faces, side, folk.backgrounds, see)

        seen = recognise.describe(look(folk.probes))
        bound = attempt(distances(recognise.describe(look(folk.probes, clear=True)), gallery), owners)
        own = recognise.describe(look(folk.gallery))
        rows = {
            "naive": identification_row("naive", attempt(distances(seen, gallery), owners), bound),
            "parrot": identification_row("parrot", attempt(distances(seen, own), owners), bound),
        }
        report["sides"][side] = {name: asdict(row) for name, row in rows.items()}
        print(side, report["sides"][side], file=sys.stderr, flush=True)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--first", type=int, default=120)
    parser.add_argument("--probes", type=int, default=240)
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES)
    parser.add_argument("--transform", default="protector")
    parser.add_argument("--json", action="store_true")
    parsed = parser.parse_args(arguments)
    report = run(parsed)
    if parsed.json:
        print(json.dumps(report, indent=2))
        return 0
    for side, rows in report["sides"].items():
        for name, row in rows.items():
            print(
                f"{side:>4} px {name:<7}{row['value']:8.2%} ({row['low']:.1%}..{row['high']:.1%}) "
                f"clear {row['clear']:.1%} chance {row['chance']:.2%} n={row['n']}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
