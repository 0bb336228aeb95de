"""The ways without workers: one process, the real detector, the real tiles; times are a formula's.

What is found does not depend on how fast workers are (what they are believed to be decides how tiles are
joined), so that many frames can be looked at on a busy machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from analytics.detector import load_detector
from analytics.elf import Planner, Policy, Tile, WorkerView
from analytics.interface import Detector, DetectorConfig
from analytics.pool import PoolResult, TileOutcome
from analytics.pool.memory import Answered, FramePlanner, Memory
from analytics.pool.tiles import cut
from analytics.worker.pictures import decode_picture, picture_size
from base.frames import ProtectedFrame
from bench.elf_bench import SIMULATED_FIXED_S, SIMULATED_PIXELS_PER_S
from bench.elf_figures import at_least, people, quality
from bench.elf_parts import Json, spread_ms
from bench.elf_ways import REFERENCE_MIN_SCORE, GridPlanner, MovedPlanner, OnePlanner

_DETECTOR_MIN_SCORE = 0.05  # as workers have it
_DELAY_S = 0.004


class QuickWay:
    """One way; as ``Pool.detect``, with every tile detected at once and here.

    A look ends after the tiles of its frame and before the next frame is planned.
    """

    def __init__(
        self,
        planner: FramePlanner,
        detector: Detector,
        views: Sequence[WorkerView],
        *,
        jpeg_quality: int,
        min_score: float,
    ) -> None:
        self._memory = Memory(planner, min_score)
        self._detector, self._views = detector, {view.name: view for view in views}
        self._jpeg_quality, self._min_score = jpeg_quality, min_score
        self._ended: TileOutcome | None = None

    def run(self, frame: ProtectedFrame, index: int) -> PoolResult:
        """One frame; the index rises."""
        names = self._detector.class_names
        ended, self._ended = self._ended, None
        plan = self._memory.plan(frame, index, list(self._views.values()), ended, names)
        outcomes = [self._answer(frame, tile, is_look=False) for tile in plan.tiles]
        if plan.look is not None:
            look = self._answer(frame, plan.look, is_look=True)
            if outcomes:
                self._ended = look
                look = replace(look, kind="pending", busy_s=None, found=None)
            outcomes.append(look)
        frame_wh = (frame.width, frame.height)
        merged = self._memory.take(Answered(index, frame_wh, plan, outcomes), None, names)
        time_s = self._time_s(outcomes)
        return PoolResult(index, frame_wh, merged, tuple(outcomes), ended, plan, time_s, 0.0, 0.0, time_s, {})

    def _answer(self, frame: ProtectedFrame, tile: Tile, *, is_look: bool) -> TileOutcome:
        piece = cut(frame, tile)
        data = bytes(piece.jpeg(self._jpeg_quality))
        self._memory.learn_bytes(piece.pixels, len(data))
        found = self._detector.detect(decode_picture(data, picture_size(data)))
        found = at_least(found, self._min_score)
        view = self._views[tile.worker]
        busy_s = view.fixed_s + piece.pixels / view.pixels_per_s
        time_s = busy_s + len(data) / view.bytes_per_s
        return TileOutcome(tile, is_look, "answered", tile.worker, time_s, len(data), busy_s, 0, 0, found)

    def _time_s(self, outcomes: Sequence[TileOutcome]) -> float:
        """When the slowest worker has answered its tiles, looks apart."""
        busy: dict[str, float] = {}
        for outcome in outcomes:
            if not outcome.is_look:
                busy[outcome.worker] = busy.get(outcome.worker, _DELAY_S) + outcome.latency_s
        return max(busy.values(), default=0.0)


class QuickWays:
    """One detector and all ways."""

    def __init__(self, arguments: argparse.Namespace, detector: Detector | None = None) -> None:
        config = DetectorConfig(min_score=_DETECTOR_MIN_SCORE, threads=1, any_size=True)
        self._detector = detector or load_detector(arguments.detector, config)
        self._arguments = arguments
        speed, fixed_s = SIMULATED_PIXELS_PER_S * arguments.cap, SIMULATED_FIXED_S / arguments.cap
        self._views = [
            WorkerView(f"w{n}", speed, arguments.link_mbit * 125e3, _DELAY_S, fixed_s)
            for n in range(arguments.workers)
        ]

    def run(self, frames: Sequence[ProtectedFrame]) -> dict[str, list[PoolResult]]:
        """The results of every way."""
        weak = min(REFERENCE_MIN_SCORE, self._arguments.min_score)
        planners: dict[str, FramePlanner] = {
            "one": OnePlanner(),
            "grid": GridPlanner(),
            "elf": Planner(Policy(local_detector=False)),
        }
        if self._arguments.noise_floor:
            planners["moved"] = MovedPlanner()
        results: dict[str, list[PoolResult]] = {}
        for name, planner in planners.items():
            min_score = weak if name == "one" else self._arguments.min_score
            jpeg_quality = self._arguments.quality
            way = QuickWay(
                planner, self._detector, self._views, jpeg_quality=jpeg_quality, min_score=min_score
            )
            results[name] = [way.run(frame, index) for index, frame in enumerate(frames)]
        return results


def modelled(results: Mapping[str, Sequence[PoolResult]]) -> Json:
    """What was sent, and how long that takes by the formula that plans are made with; cut frames only."""
    rows = [index for index, result in enumerate(results["elf"]) if not result.plan.covers_all]
    if not rows:
        return {"cut_frames": 0}
    report: Json = {"cut_frames": len(rows)}
    sent = {name: statistics.mean(each[row].sent_bytes for row in rows) for name, each in results.items()}
    report["upload_change"] = round(sent["elf"] / sent["one"] - 1, 4)
    pixels = [
        sum(tile.sent_pixels for tile in results["elf"][row].plan.tiles)
        / (results["elf"][row].frame_wh[0] * results["elf"][row].frame_wh[1])
        for row in rows
    ]
    report["pixels_without_looks"] = round(statistics.mean(pixels), 4)
    for name in ("one", "grid", "elf"):
        report[f"{name}_modelled_ms"] = spread_ms([results[name][row].latency_s for row in rows])
        report[f"{name}_modelled_ms"]["mean"] = round(
            1000 * statistics.mean(results[name][row].latency_s for row in rows), 1
        )
    return report


def quick_quality(arguments: argparse.Namespace, clips: Iterable[tuple[str, list[ProtectedFrame]]]) -> Json:
    """Every clip, all clips together, and MOT's labelled frames."""
    ways = QuickWays(arguments)
    labels = ", ".join(arguments.labels)
    together: dict[str, list[PoolResult]] = {}
    report: Json = {"clips": {}}
    for name, frames in clips:
        results = ways.run(frames)
        part = {"frames": len(frames)} | quality(results, arguments.labels) | modelled(results)
        report["clips"][name] = part
        print(f"{name}, {frames[0].width}x{frames[0].height}, {labels}: {part}", file=sys.stderr, flush=True)
        for way, found in results.items():
            together.setdefault(way, []).extend(found)
    if len(report["clips"]) > 1:
        part = quality(together, arguments.labels) | modelled(together)
        del part["new_objects"], part["look_interval_frames"]  # clips follow each other: no one's history
        report["all_clips"] = {"frames": len(together["one"])} | part
        print(f"all clips, {labels}: {report['all_clips']}", file=sys.stderr)
    if arguments.mot:
        report["mot"] = people(arguments.mot, ways.run, arguments.min_score, arguments.mot_frames)
        print(f"MOT labels: {report['mot']}", file=sys.stderr)
    return report
