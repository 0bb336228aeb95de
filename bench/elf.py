"""Elf against one worker and against a grid: latency, upload, quality and faults, on capped workers.

    python -m bench.elf CLIP... [--frames 100] [--cap 0.15] [--link-mbit 100] [--workers 4] [--json]
                                [--mot FOLDER...] [--only latency,balance,faults,planning,mot] [--simulate]
    python -m bench.elf CLIP... --only quality [--frames 300] [--skip 0] [--mot FOLDER...] [--noise-floor]

Every worker is a ``veilcam worker`` in a network namespace of its own, behind a link of so many Mbit/s (tbf),
with a quota of so much of one core (cgroup, periods of 10 ms). Every frame goes three ways, one after the
other, through the same code and connections: whole to the first worker; in equal grid tiles to all; by Elf's
plan to all. Where namespaces or quotas are not permitted workers run on loopback with a formula for their
speed, and every figure is marked as simulated. Weights of the detector come from VEILCAM_MODEL_DIR.

``--only quality`` looks at what is found alone: the same plans, tiles and JPEGs in this one process, with no
namespaces, quotas or workers, for many frames on a busy machine; its times are the plan's own formula.
Figures of quality count persons and vehicles (``--labels``): what a small detector takes for something else
in a whole frame says nothing about people.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from analytics.classes import COCO_NAMES
from base.frames import ProtectedFrame
from bench.elf_bench import Bench
from bench.elf_figures import ALL_LABELS, ROAD_USERS
from bench.elf_parts import balance, faults, labelled, latency, planning
from bench.elf_quality import mot_sequence, there_and_back
from bench.elf_quick import quick_quality
from models import load_protector
from veilcam.edge.clip import protected_frames

PARTS = ("latency", "balance", "faults", "planning", "mot")
QUALITY = "quality"  # in this process; not among the parts that are run if nobody says which
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip's protected frames."""

    path: Path
    frames: list[ProtectedFrame]


def run(arguments: argparse.Namespace) -> Json:
    """All parts that were asked for."""
    report: Json = {
        "cap_of_one_core": arguments.cap,
        "link_mbit": arguments.link_mbit,
        "workers": arguments.workers,
        "detector": arguments.detector,
        "jpeg_quality": arguments.quality,
        "min_score": arguments.min_score,
        "labels": list(arguments.labels),
        "clips": {},
    }
    if "planning" in arguments.only:
        report["planning"] = planning()
    if QUALITY in arguments.only:
        report["quality"] = quick_quality(
            arguments, ((path.name, clip_frames(path, arguments)) for path in arguments.clips)
        )
    if set(arguments.only) <= {"planning", QUALITY}:
        return report
    clips = [Clip(path, clip_frames(path, arguments)) for path in arguments.clips]
    with Bench(arguments) as bench:
        report["simulated"] = bench.why_simulated
        if bench.why_simulated:
            print(f"SIMULATED workers: {bench.why_simulated}", file=sys.stderr)
        for clip in clips:
            part: Json = {"size": f"{clip.frames[0].width}x{clip.frames[0].height}"}
            if "latency" in arguments.only:
                part["latency"] = latency(bench, clip.frames)
                show_latency(clip.path.name, part, report)
            if "balance" in arguments.only:
                part["balance"] = balance(bench, clip.frames)
                show(f"{clip.path.name}: capacities 4:2:1:1", part["balance"])
            if "faults" in arguments.only:
                calm_ms = part["latency"]["elf"]["latency_ms"]["median"] if "latency" in part else 100.0
                part["faults"] = faults(bench, clip.frames, calm_ms / 1000)
                for one in part["faults"]["runs"]:
                    show(f"{clip.path.name}: fault", one)
            report["clips"][clip.path.name] = part
        if "balance" in arguments.only and arguments.mot:
            protector = load_protector()
            clear, _ = mot_sequence(arguments.mot[-1])
            crowd = [protector.protect(frame, renew=number == 0) for number, frame in enumerate(clear)]
            report["balance_in_a_crowd"] = balance(bench, there_and_back(crowd, arguments.frames // 2))
            show(f"{arguments.mot[-1].name}: capacities 4:2:1:1", report["balance_in_a_crowd"])
        if "mot" in arguments.only and arguments.mot:
            report["mot"] = labelled(bench, arguments.mot)
            show("MOT labels", report["mot"])
    return report


def clip_frames(path: Path, arguments: argparse.Namespace) -> list[ProtectedFrame]:
    """The protected frames of a clip that were asked for."""
    frames = protected_frames(path, limit=arguments.skip + arguments.frames)
    return [frame for frame, _ in islice(frames, arguments.skip, None)]


def without_nan(value: Any) -> Any:  # noqa: ANN401
    """JSON has no nan: a mean of nothing is null."""
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(title: str, values: Json) -> None:
    print(f"{title}: " + ", ".join(f"{key} {value}" for key, value in values.items()), file=sys.stderr)


def without_labels(values: Json) -> Json:
    """For one line: the labels are said before."""
    return {key: value for key, value in values.items() if key != "labels"}


def show_latency(name: str, part: Json, report: Json) -> None:
    found, mark = part["latency"], " (SIMULATED)" if report.get("simulated") else ""
    print(
        f"{name} {part['size']}, {found['frames']} frames, {report['workers']} workers at"
        f" {100 * report['cap_of_one_core']:.0f} % of a core, {report['link_mbit']:.0f} Mbit/s,"
        f" {report['detector']}, JPEG {report['jpeg_quality']}{mark}",
        file=sys.stderr,
    )
    for way in ("one", "grid", "elf"):
        show(f"  {way}", found[way])
    for key in ("times_faster_than_one", "times_faster_than_grid", "upload_change", "plan_ms", "encode_ms"):
        print(f"  {key}: {found[key]}", file=sys.stderr)
    show(f"  quality ({', '.join(report['labels'])})", without_labels(found["quality"]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clips", nargs="*", type=Path)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0, help="frames at the beginning of every clip")
    parser.add_argument("--cap", type=float, default=0.15, help="share of one core per worker")
    parser.add_argument("--link-mbit", type=float, default=100.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--detector", default="yolox")
    parser.add_argument("--quality", type=int, default=85)
    parser.add_argument("--min-score", type=float, default=0.3)
    parser.add_argument("--deadline-ms", type=float, default=1000.0, help="of the fault runs")
    parser.add_argument("--mot", nargs="*", type=Path, default=[], metavar="FOLDER")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), metavar="PART,...")
    parser.add_argument("--noise-floor", action="store_true", help="also the whole frame moved by 8 pixels")
    parser.add_argument(
        "--labels",
        type=lambda text: tuple(text.split(",")),
        default=ROAD_USERS,
        metavar="LABEL,...",
        help=f"classes that figures of quality count (default: {','.join(ROAD_USERS)}), or {ALL_LABELS}",
    )
    parser.add_argument(
        "--mot-frames",
        type=int,
        default=0,
        help="of each sequence, there and back; 0: once, as it is (quality)",
    )
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    unknown = set(arguments.only) - {*PARTS, QUALITY}
    if unknown:
        parser.error(f"--only: expected some of {', '.join((*PARTS, QUALITY))}")
    unknown = set(arguments.labels) - {*COCO_NAMES, ALL_LABELS}
    if unknown:
        parser.error(f"--labels: expected names of COCO's classes or {ALL_LABELS}, got {', '.join(unknown)}")
    report = run(arguments)
    if arguments.json:
        print(json.dumps(without_nan(report), indent=2, allow_nan=False))


if __name__ == "__main__":
    main()
