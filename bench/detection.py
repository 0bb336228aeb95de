"""mAP50 of a detector on labelled images: clear, and transformed, both after the same codec.

    python -m bench.detection --images IMAGES --labels LABELS --detector yolox --transform protector

IMAGES holds pictures, LABELS one YOLO txt per picture (class x y w h, normalised; none or empty: no objects),
class ids as in COCO. The transform is ``protector`` (``protector:FOLDER`` with other weights), or
MODULE:FUNCTION for any function from uint8 BGR [H, W, 3] to the same. Relative mAP is transformed by clear;
its interval comes from resampling the same images for both. The mean takes every class the same, "by objects"
weights it with its number of objects.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analytics import Detections, Detector, load_detector
from analytics.classes import COCO_NAMES
from analytics.interface import Image
from base.errors import UsageError
from evaluation.average_precision import ClassMatches, Truth, match_class, mean_ap
from evaluation.camera import Camera
from evaluation.data import pictures as pictures_in
from evaluation.data import read_bgr, read_labels
from evaluation.detectors import CONFIG, Yolov5Detector
from evaluation.statistics import bootstrap_weights, interval_95

LABELS = ("person", "bicycle", "car", "motorcycle", "bus", "truck")
ROUNDS = 1000

Transform = Callable[[Image], Image]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One detector on one set of images: matches per class, and the codec's bits per pixel."""

    matches: tuple[ClassMatches, ...]
    bits_per_pixel: float
    num_images: int

    def summary(self) -> dict[str, Any]:
        """mAP50 with its interval, average precision and number of objects per class."""
        all_once = np.ones(self.num_images)
        spread = [mean_ap(self.matches, weights) for weights in bootstrap_weights(self.num_images, ROUNDS)]
        per_class = {
            label: {"ap50": one.average_precision(all_once), "objects": int(one.num_objects.sum())}
            for label, one in zip(LABELS, self.matches, strict=True)
        }
        return {
            "map50": mean_ap(self.matches, all_once),
            "map50_95_percent": interval_95(spread),
            "map50_by_objects": mean_ap(self.matches, all_once, by_objects=True),
            "per_class": per_class,
            "bits_per_pixel": self.bits_per_pixel,
        }


def open_detector(spec: str) -> Detector:
    """As load_detector, and ``yolov5:PATH``; with the thresholds of this bench."""
    if spec.startswith("yolov5:"):
        return Yolov5Detector(Path(spec.partition(":")[2]), CONFIG)
    return load_detector(spec, CONFIG)


def open_transform(spec: str) -> Transform:
    """The function that ``spec`` names, see the top of this file."""
    kind, _, argument = spec.partition(":")
    if kind == "protector":
        return Camera(Path(argument) if argument else None, threads=2).drawn
    if not argument:
        message = f"transform: expected protector[:FOLDER] or MODULE:FUNCTION, got {spec!r}"
        raise UsageError(message)
    function: Transform = getattr(importlib.import_module(kind), argument)
    return function


def load_set(images: Path, labels: Path, limit: int | None = None) -> tuple[list[Image], list[Truth]]:
    """Pictures in order of their names, and what is labelled in them.

    Raises:
        UsageError: no pictures, or a label line that is not five numbers.
    """
    pictures, truth = [], []
    for path in pictures_in(images)[:limit]:
        picture = read_bgr(path)
        pictures.append(picture)
        height, width = picture.shape[:2]
        truth.append(read_labels(labels / f"{path.stem}.txt", width, height))
    if not pictures:
        message = f"{images}: holds no pictures"
        raise UsageError(message)
    return pictures, truth


def evaluate(
    detector: Detector,
    pictures: Sequence[Image],
    truth: Sequence[Truth],
    transform: Transform | None = None,
    *,
    crf: int = 23,
) -> Evaluation:
    """Transform (if any), code and decode every picture, detect, and match to the labels."""
    found: list[Detections] = []
    camera = Camera(crf=crf)
    bits = pixels = 0
    for picture in pictures:
        coded = camera.clear_still(transform(picture) if transform else picture)
        bits, pixels = bits + coded.bits, pixels + picture.shape[0] * picture.shape[1]
        found.append(detector.detect(coded.image))
    matches = tuple(match_class(found, truth, label, COCO_NAMES.index(label)) for label in LABELS)
    return Evaluation(matches, bits / pixels, len(pictures))


def relative(transformed: Evaluation, clear: Evaluation) -> dict[str, Any]:
    """mAP50 transformed by clear, overall with a paired interval, and per class."""
    all_once = np.ones(clear.num_images)
    per_class = {
        label: one.average_precision(all_once) / other.average_precision(all_once)
        for label, one, other in zip(LABELS, transformed.matches, clear.matches, strict=True)
    }
    both, objects = (
        _ratios(transformed, clear, by_objects=False),
        _ratios(transformed, clear, by_objects=True),
    )
    return {
        "map50": both[0],
        "map50_95_percent": interval_95(both[1:]),
        "map50_by_objects": objects[0],
        "map50_by_objects_95_percent": interval_95(objects[1:]),
        "per_class": per_class,
        "bits": transformed.bits_per_pixel / clear.bits_per_pixel,
    }


def _ratios(transformed: Evaluation, clear: Evaluation, *, by_objects: bool) -> list[float]:
    """Transformed by clear for all images, then for each resample."""
    weights = [np.ones(clear.num_images), *bootstrap_weights(clear.num_images, ROUNDS)]
    return [
        mean_ap(transformed.matches, one, by_objects=by_objects)
        / mean_ap(clear.matches, one, by_objects=by_objects)
        for one in weights
    ]


def run(
    detector: Detector, images: Path, labels: Path, *, transform: str | None, crf: int, limit: int | None
) -> dict[str, Any]:
    """The whole report as a JSON-ready dict."""
    pictures, truth = load_set(images, labels, limit)
    started = time.monotonic()
    clear = evaluate(detector, pictures, truth, crf=crf)
    report: dict[str, Any] = {
        "detector": detector.name,
        "images": len(pictures),
        "codec": f"libx264 baseline veryfast intra crf {crf}",
        "machine": f"{platform.machine()} {platform.system()}, python {platform.python_version()}",
        "clear": clear.summary(),
    }
    if transform:
        transformed = evaluate(detector, pictures, truth, open_transform(transform), crf=crf)
        report |= {"transform": transform, "transformed": transformed.summary()}
        report["relative"] = relative(transformed, clear)
    return report | {"seconds": round(time.monotonic() - started, 1)}


def print_report(report: dict[str, Any]) -> None:
    print(f"{report['detector']}, n = {report['images']} images, {report['codec']}, {report['seconds']} s")
    for part in ("clear", "transformed"):
        if part in report:
            one = report[part]
            low, high = one["map50_95_percent"]
            print(f"{part:12} mAP50 {one['map50']:.3f} [{low:.3f}, {high:.3f}]", end="")
            print(f"  by objects {one['map50_by_objects']:.3f}  {one['bits_per_pixel']:.3f} bit/pixel")
            print(
                "  "
                + "  ".join(f"{k} {v['ap50']:.3f} (n={v['objects']})" for k, v in one["per_class"].items())
            )
    if "relative" in report:
        one = report["relative"]
        low, high = one["map50_95_percent"]
        print(f"{'relative':12} mAP50 {one['map50']:.3f} [{low:.3f}, {high:.3f}]", end="")
        low, high = one["map50_by_objects_95_percent"]
        print(f"  by objects {one['map50_by_objects']:.3f} [{low:.3f}, {high:.3f}]  bits {one['bits']:.3f}")
        print("  " + "  ".join(f"{k} {v:.3f}" for k, v in one["per_class"].items()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--detector", default="yolox", help="as veilcam detect, or yolov5:PATH")
    parser.add_argument("--transform", help="protector[:FOLDER] or MODULE:FUNCTION; clear only if not given")
    parser.add_argument("--crf", type=int, default=23)
    parser.add_argument("--limit", type=int, help="the first so many images only")
    parser.add_argument("--json", type=Path, help="also write the report here")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    detector = open_detector(options.detector)
    report = run(
        detector,
        options.images,
        options.labels,
        transform=options.transform,
        crf=options.crf,
        limit=options.limit,
    )
    print_report(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
