"""What the bench measures, part by part."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from analytics.classes import COCO_NAMES
from analytics.detections import Detections
from analytics.elf import Planner, Policy, WorkerView
from analytics.pool import PoolResult
from base.frames import ProtectedFrame
from bench.elf_bench import Bench, quick_workers
from bench.elf_faults import Fault, FaultReport, freeze, kill, run_fault
from bench.elf_figures import people, quality
from bench.elf_ways import Way, Ways
from veilcam.edge.replay import percentile

UNEQUAL = (4, 2, 1, 1)
Json = dict[str, Any]


def spread_ms(seconds: Sequence[float]) -> Json:
    """Median, 95th percentile and maximum in milliseconds."""
    return {
        "median": round(1000 * statistics.median(seconds), 1),
        "p95": round(1000 * percentile(seconds, 95), 1),
        "most": round(1000 * max(seconds), 1),
    }


def latency(bench: Bench, frames: Sequence[ProtectedFrame]) -> Json:
    """Part 1: the three ways, frame by frame."""

    async def run() -> tuple[list[Way], list[Any]]:
        ways = Ways(bench.addresses(), bench.options(), ("one", "grid", "elf", *more))
        try:
            await ways.start()
            await ways.run(frames)
        finally:
            await ways.close()
        return ways.ways, list(ways.workers.states())

    more = ("moved",) if bench.arguments.noise_floor else ()
    ways, states = asyncio.run(run())
    elf = ways[2].results
    warm = slice(min(3, len(frames) - 1), None)  # the first frames have no history
    report: Json = {"frames": len(frames), "warm_up_frames": warm.start}
    for way in ways:
        report[way.name] = {
            "latency_ms": spread_ms([result.latency_s for result in way.results[warm]]),
            "with_look_ms": spread_ms(way.with_look_s[warm]),
            "sent_bytes_per_frame": round(statistics.mean(result.sent_bytes for result in way.results[warm])),
            "tiles_per_frame": round(
                statistics.mean(len(result.plan.tiles) for result in way.results[warm]), 2
            ),
            "late": sum(result.late for result in way.results),
            "failed": sum(result.failed for result in way.results),
            "missing": sum(result.missing for result in way.results),
        }
    medians = {way.name: report[way.name]["latency_ms"]["median"] for way in ways}
    looks = {way.name: report[way.name]["with_look_ms"]["median"] for way in ways}
    report["times_faster_than_one"] = round(medians["one"] / medians["elf"], 2)
    report["times_faster_than_grid"] = round(medians["grid"] / medians["elf"], 2)
    report["times_faster_than_one_waiting_for_looks"] = round(looks["one"] / looks["elf"], 2)
    sent = {way.name: report[way.name]["sent_bytes_per_frame"] for way in ways}
    report["upload_change"] = round(sent["elf"] / sent["one"] - 1, 4)
    report["plan_ms"] = spread_ms([result.plan_s for result in elf[warm]])
    report["encode_ms"] = spread_ms([result.encode_s for result in elf[warm]])
    labels = bench.arguments.labels
    report["quality"] = quality({way.name: way.results for way in ways}, labels)
    report["workers"] = [asdict(state) for state in states]
    return report


def balance(bench: Bench, frames: Sequence[ProtectedFrame]) -> Json:
    """Part 2: workers of unequal capacity; how evenly busy Elf keeps them."""
    if bench.lab is None or len(bench.processes) != len(UNEQUAL):
        return {"skipped": "needs 4 workers whose quota can be changed"}
    unit = bench.arguments.cap * len(UNEQUAL) / sum(UNEQUAL)
    for number, share in enumerate(UNEQUAL):
        bench.cap(number, unit * share)

    async def run() -> list[PoolResult]:
        ways = Ways(bench.addresses(), bench.options(), ["elf"])
        try:
            await ways.start()
            await ways.run(frames)
        finally:
            await ways.close()
        return ways.ways[0].results

    results = asyncio.run(run())[10:]
    for number in range(len(UNEQUAL)):
        bench.cap(number, bench.arguments.cap)
    busy: dict[str, float] = {f"w{n}": 0.0 for n in range(len(UNEQUAL))}
    ends: dict[str, float] = dict.fromkeys(busy, 0.0)
    planned: dict[str, float] = dict.fromkeys(busy, 0.0)
    without_looks: dict[str, float] = dict.fromkeys(busy, 0.0)
    for result in results:
        if result.plan.look is None:
            for name, finish_s in result.plan.predicted_finish_s.items():
                planned[name] = planned.get(name, 0.0) + finish_s
        last: dict[str, float] = {}
        for outcome in result.outcomes:
            if outcome.busy_s is not None and not outcome.is_look:
                busy[outcome.worker] += outcome.busy_s
                last[outcome.worker] = max(last.get(outcome.worker, 0.0), outcome.latency_s)
        for name, end_s in last.items():
            ends[name] += end_s
            if result.plan.look is None:
                without_looks[name] += end_s
    return {
        "capacities": UNEQUAL,
        "caps": [round(unit * share, 4) for share in UNEQUAL],
        "frames": len(results),
        "busy_s": {name: round(seconds, 3) for name, seconds in busy.items()},
        "busy_spread": spread_of(busy.values()),
        "from_sending_to_last_answer_s": {name: round(seconds, 3) for name, seconds in ends.items()},
        "last_answer_spread": spread_of(ends.values()),
        "without_looks_s": {name: round(seconds, 3) for name, seconds in without_looks.items()},
        "without_looks_spread": spread_of(without_looks.values()),
        "planned_without_looks_s": {name: round(seconds, 3) for name, seconds in planned.items()},
        "latency_ms": spread_ms([result.latency_s for result in results]),
    }


def spread_of(values: Iterable[float]) -> float:
    """Largest less smallest, against the mean."""
    found = list(values)
    return round((max(found) - min(found)) / max(statistics.mean(found), 1e-9), 3)


def faults(bench: Bench, frames: Sequence[ProtectedFrame], calm_s: float) -> Json:
    """Part 3: kill, freeze and slow one worker in the middle of a stream."""
    deadline_s = bench.arguments.deadline_ms / 1000
    interval_s = max(0.1, 1.3 * calm_s)
    options = bench.options(deadline_s=deadline_s)

    def run(fault: Fault) -> FaultReport:
        return asyncio.run(run_fault(fault, bench.addresses(), options, frames, interval_s=interval_s))

    reports = [run(freeze(bench.processes[1].pid))]
    if bench.lab is not None:
        slow, normal = bench.arguments.cap / 4, bench.arguments.cap
        reports.append(
            run(Fault("slowed to a quarter", lambda: bench.cap(1, slow), lambda: bench.cap(1, normal)))
        )
    reports.append(run(Fault("kill -9", kill(bench.processes[1].pid), lambda: None)))
    bench.processes[1].stop()
    bench.cap(1, 1.0)
    bench.processes[1] = bench.start(1)
    bench.processes[1].wait(120)
    bench.cap(1, bench.arguments.cap)
    return {
        "interval_ms": round(1000 * interval_s),
        "runs": [asdict(one) | {"good": one.is_good} for one in reports],
    }


def planning(objects: int = 32, frames: int = 300) -> Json:
    """Part 4: planning and prediction in thread time, for objects that walk about at random."""
    chance = np.random.default_rng(7)
    size, wh = chance.uniform((20, 40), (80, 160), (objects, 2)), np.array([1280, 720])
    place, speed = chance.uniform(0, 1, (objects, 2)) * (wh - size), chance.normal(0, 3, (objects, 2))
    workers = [WorkerView(f"w{n}", 1.5e6, 12e6, 0.004, 0.004) for n in range(4)]
    planner, seconds = Planner(Policy()), []
    for index in range(frames):
        place = np.clip(place + speed + chance.normal(0, 0.5, place.shape), 0, wh - size)
        boxes = np.concatenate([place, place + size], 1).astype(np.float32)
        found = Detections(boxes, np.full(objects, 0.8, np.float32), np.zeros(objects, np.int64), COCO_NAMES)
        began_s = time.thread_time()
        planner.plan(index, (1280, 720), workers)
        planner.observe(index, found)
        seconds.append(time.thread_time() - began_s)
    return {"objects": objects, "thread_ms": spread_ms(seconds[10:])}


def labelled(bench: Bench, folders: Sequence[Path]) -> Json:
    """Part 5: mAP50 of people against MOT's labels, whole frames and tiles; workers without a cap."""

    async def run(frames: Sequence[ProtectedFrame]) -> list[Way]:
        ways = Ways(bench.addresses(), bench.options(deadline_s=60), ("one", "grid", "elf"))
        try:
            await ways.start()
            await ways.run(frames)
        finally:
            await ways.close()
        return ways.ways

    def results(frames: Sequence[ProtectedFrame]) -> dict[str, list[PoolResult]]:
        return {way.name: way.results for way in asyncio.run(run(frames))}

    with quick_workers(bench):
        return people(folders, results, bench.arguments.min_score)
