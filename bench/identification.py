"""Rank-1 identification of faces in protected video by an unmodified public recogniser.

    python -m bench.identification --faces ALIGNED --backgrounds IMAGES [--first 120] [--transform protector]

ALIGNED holds one folder of ArcFace-aligned 112x112 crops per identity. The first crop of every
identity is the clear gallery; the others, of identities from ``--first`` on (those before may have
been used in training), are probes. Probes are pasted into background pictures at several heights,
transformed, coded with x264 (CRF 23, veryfast), and handed to the recogniser (dlib's ResNet) at
their exact position: a better attacker than one who has to find them. ``naive`` compares protected
probes with the clear gallery, ``parrot`` with a gallery protected in the same way. Needs
``dlib-bin`` and ``face_recognition_models``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from bench.average_precision import interval_95
from bench.detection import Image, Transform, open_transform
from bench.intra import intra_round_trip

FACE_SIDES = (48, 80, 128, 224)  # pixels of the pasted crop; the face fills about 95 % of it
CANVAS = (480, 640)
SLOT = 232

Vectors = npt.NDArray[np.float64]


class DlibRecogniser:
    """dlib's ResNet: 128 numbers per face, the same person within about 0.6 (King 2017)."""

    # ArcFace-aligned 112 px to dlib's 150 px chip: eye centres on eye centres.
    TO_CHIP = np.array([[1.494, 0.0, -9.5], [0.0, 1.494, -30.0]], np.float32)

    def __init__(self) -> None:
        import dlib  # noqa: PLC0415  (not a dependency of the product)
        import face_recognition_models  # noqa: PLC0415

        self._net = dlib.face_recognition_model_v1(face_recognition_models.face_recognition_model_location())

    def __call__(self, aligned_bgr: Image) -> Vectors:
        """Descriptor of an aligned crop of any size."""
        side = aligned_bgr.shape[0]
        how = cv2.INTER_AREA if side > 112 else cv2.INTER_CUBIC
        face = cv2.resize(aligned_bgr, (112, 112), interpolation=how)
        chip = cv2.warpAffine(face, self.TO_CHIP, (150, 150), borderMode=cv2.BORDER_REPLICATE)
        return np.array(self._net.compute_face_descriptor(np.ascontiguousarray(chip[:, :, ::-1])))


@dataclass(frozen=True, slots=True)
class Face:
    """A crop and whose it is."""

    identity: int
    crop: Image


def load_faces(folder: Path, first: int, excluded: set[str]) -> tuple[list[Face], list[Face]]:
    """Gallery (one crop of everybody) and probes (the others' crops of identities from ``first`` on)."""
    gallery, probes = [], []
    for index, person in enumerate(sorted(p for p in folder.iterdir() if p.is_dir())):
        crops = [cv2.imread(str(path)) for path in sorted(person.glob("*.jpg"))]
        gallery.append(Face(index, crops[0]))
        if index >= first and person.name not in excluded:
            probes += [Face(index, crop) for crop in crops[1:]]
    return gallery, probes


def through_camera(
    faces: list[Face], side: int, backgrounds: list[Image], transform: Transform
) -> list[Image]:
    """Every face at ``side`` pixels as it looks in the coded, transformed video."""
    slots = (
        [(x, y) for y in (4, 244) for x in (0, 204, 408)] if side <= 200 else [(20, 4), (360, 4), (200, 244)]
    )
    seen: list[Image] = []
    for start in range(0, len(faces), len(slots)):
        background = backgrounds[(start // len(slots)) % len(backgrounds)]
        frame = cv2.resize(background, CANVAS[::-1])
        group = faces[start : start + len(slots)]
        corners = [
            (x + (face.identity * 7) % 9, y + (face.identity * 5) % 7)
            for face, (x, y) in zip(group, slots, strict=False)
        ]
        for face, (x, y) in zip(group, corners, strict=True):
            _paste(frame, face.crop, x, y, side)
        coded, _ = intra_round_trip(transform(frame))
        seen += [coded[y : y + side, x : x + side] for x, y in corners]
    return seen


def _paste(frame: Image, crop: Image, x: int, y: int, side: int) -> None:
    how = cv2.INTER_AREA if side < crop.shape[0] else cv2.INTER_CUBIC
    frame[y : y + side, x : x + side] = cv2.resize(crop, (side, side), interpolation=how)


def rank1(probes: Vectors, identities: list[int], gallery: Vectors) -> npt.NDArray[np.bool_]:
    """Whether the nearest gallery vector (index = identity) is the right one, per probe."""
    distances = np.linalg.norm(probes[:, None] - gallery[None], axis=2)
    return np.asarray(distances.argmin(1) == np.array(identities), np.bool_)


def summary(hits: npt.NDArray[np.bool_], people: int) -> dict[str, Any]:
    """Rate with its bootstrap interval, beside chance."""
    rng = np.random.default_rng(0)
    rates = [float(rng.choice(hits, len(hits)).mean()) for _ in range(1000)]
    rate, chance = float(hits.mean()), 1 / people
    low, high = interval_95(rates)
    return {"rank1": rate, "low": low, "high": high, "times_chance": rate / chance, "n": len(hits)}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """All sizes; clear as the upper bound, naive and parrot."""
    excluded = {p.name for p in arguments.exclude.iterdir()} if arguments.exclude else set()
    gallery, probes = load_faces(arguments.faces, arguments.first, excluded)
    probes = probes[:: arguments.every]
    paths = sorted(p for p in arguments.backgrounds.rglob("*") if p.suffix.lower() in {".jpg", ".png"})
    backgrounds = [cv2.imread(str(path)) for path in paths[:: max(1, len(paths) // 40)]]
    recognise, transform = DlibRecogniser(), open_transform(arguments.transform)
    identities = [face.identity for face in probes]
    clear_gallery = np.stack([recognise(face.crop) for face in gallery])
    report: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(),
        "people": len(gallery),
        "chance": 1 / len(gallery),
        "sides": {},
    }
    for side in arguments.sides:
        plain = np.stack(
            [recognise(f) for f in through_camera(probes, side, backgrounds, lambda image: image)]
        )
        seen = np.stack([recognise(f) for f in through_camera(probes, side, backgrounds, transform)])
        own = np.stack([recognise(f) for f in through_camera(gallery, side, backgrounds, transform)])
        rows = {
            "clear": rank1(plain, identities, clear_gallery),
            "naive": rank1(seen, identities, clear_gallery),
            "parrot": rank1(seen, identities, own),
        }
        report["sides"][side] = {name: summary(hits, len(gallery)) for name, hits in rows.items()}
        print(side, report["sides"][side], file=sys.stderr, flush=True)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faces", type=Path, required=True)
    parser.add_argument("--backgrounds", type=Path, required=True)
    parser.add_argument(
        "--exclude", type=Path, help="folder whose sub-folders name identities used in training"
    )
    parser.add_argument("--first", type=int, default=120)
    parser.add_argument("--every", type=int, default=1, help="use every n-th probe")
    parser.add_argument("--sides", type=int, nargs="+", default=FACE_SIDES)
    parser.add_argument("--transform", default="protector")
    parser.add_argument("--json", action="store_true")
    parsed = parser.parse_args(arguments)
    report = run(parsed)
    if parsed.json:
        print(json.dumps(report, indent=2))
        return 0
    print(f"rank-1 among {report['people']} people, chance {report['chance']:.2%}, {report['machine']}")
    for side, rows in report["sides"].items():
        for name, row in rows.items():
            interval = f"{row['low']:.1%}..{row['high']:.1%}"
            times = f"{row['times_chance']:6.1f}x chance, n={row['n']}"
            print(f"{side:>4} px {name:<7}{row['rank1']:8.2%} ({interval}) {times}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
