"""Figures of quality from the results of the ways: against whole frames, and against MOT's labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.detections import Detections
from analytics.pool import PoolResult
from base.frames import ProtectedFrame
from bench.elf_quality import (
    STRONG,
    agreement,
    differences,
    discovery,
    map50,
    mot_sequence,
    there_and_back,
    whole_share,
)
from evaluation.average_precision import Truth, iou_matrix, match_class
from models import load_protector

ROAD_USERS = ("person", "bicycle", "car", "motorcycle", "bus", "truck")
"""The classes of COCO that count if nobody says otherwise: persons and vehicles."""
ALL_LABELS = "all"
DRAWS = 2000  # of the bootstrap
Json = dict[str, Any]
Results = Mapping[str, Sequence[PoolResult]]


def of_labels(results: Sequence[PoolResult], labels: Sequence[str]) -> list[PoolResult]:
    """The results with the detections of these classes alone; ``all`` leaves every class."""
    if ALL_LABELS in labels:
        return list(results)
    return [replace(result, detections=result.detections.with_labels(labels)) for result in results]


def quality(ways: Results, labels: Sequence[str]) -> Json:
    """The ways against the whole frame's detections ("one") of the same run; only ``labels`` count.

    Tiles and carried boxes are counted (``boxes_whole_in_one_tile``) in frames that were cut, as the first
    one is always sent whole.
    """
    counted = {name: of_labels(results, labels) for name, results in ways.items()}
    found = {name: [result.detections for result in results] for name, results in counted.items()}
    whole, elf = found["one"], counted["elf"]
    known = [detections.boxes_xyxy[detections.scores >= STRONG] for detections in whole]
    warm = [index for index, result in enumerate(elf) if not result.plan.covers_all]
    inside, total = whole_share([elf[index] for index in warm], [known[index] for index in warm])
    new = discovery(whole, elf)
    looks = [index for index, result in enumerate(elf) if any(o.is_look for o in result.outcomes)]
    gaps = np.diff(looks)
    report: Json = {
        "labels": list(labels),
        "agreement_map50_at_0.5": percent(agreement(whole, found["elf"], STRONG)),
        "agreement_map50_at_0.3": percent(agreement(whole, found["elf"], 0.3)),
        "grid_agreement_map50_at_0.5": percent(agreement(whole, found["grid"], STRONG)),
        "sure_objects_missed_invented": differences(whole, found["elf"]),
        "grid_sure_objects_missed_invented": differences(whole, found["grid"]),
        "boxes_whole_in_one_tile": [inside, total, percent(inside / max(total, 1))],
        "new_objects": {"came": new.came, "in_time": new.in_time, "delays_frames": list(new.delays)},
        "look_interval_frames": round(float(np.median(gaps)), 1) if len(gaps) else None,
    }
    if "moved" in found:
        report["moved_by_8_pixels_agreement_map50_at_0.5"] = percent(agreement(whole, found["moved"], STRONG))
        report["moved_by_8_pixels_sure_objects_missed_invented"] = differences(whole, found["moved"])
    return report


def people(
    folders: Sequence[Path],
    run: Callable[[Sequence[ProtectedFrame]], Results],
    min_score: float,
    num_frames: int = 0,
) -> Json:
    """mAP50 of people against the labels of MOT sequences.

    Args:
        folders: of the sequences.
        run: gives the results of the ways, "one" and "elf" among them, for the frames of one sequence.
        min_score: weaker detections do not count.
        num_frames: of each sequence, forwards and backwards until there are so many; 0: once, as it is.
    """
    found: dict[str, list[Detections]] = {}
    truths: list[Truth] = []
    sequence: list[int] = []
    cut, whole, seen_whole = [], np.zeros(2, np.int64), np.zeros(2, np.int64)
    protector = load_protector()
    for number, folder in enumerate(folders):
        clear, labels = mot_sequence(folder)
        frames = [protector.protect(frame, renew=index == 0) for index, frame in enumerate(clear)]
        count = num_frames or len(frames)
        frames, labels = there_and_back(frames, count), there_and_back(labels, count)
        ways = run(frames)
        for name, results in ways.items():
            found.setdefault(name, []).extend(at_least(result.detections, min_score) for result in results)
        truths += labels
        sequence += [number] * count
        elf = ways["elf"]
        cut += [not result.plan.covers_all for result in elf]
        seen = [index for index, result in enumerate(elf) if not result.plan.covers_all]
        whole += whole_share([elf[i] for i in seen], [labels[i].boxes_xyxy for i in seen])
        visible = [visible_boxes(labels[i].boxes_xyxy, ways["one"][i].detections) for i in seen]
        seen_whole += whole_share([elf[i] for i in seen], visible)
    rows = np.flatnonzero(cut)
    tiled = {name: [each[row] for row in rows] for name, each in found.items()}
    tiled_truths = [truths[row] for row in rows]
    return {
        "frames": len(truths),
        "people": sum(len(truth.boxes_xyxy) for truth in truths),
        "map50": {name: percent(map50(each, truths)) for name, each in found.items()},
        "frames_without_those_sent_whole": len(rows),
        "people_there": sum(len(truth.boxes_xyxy) for truth in tiled_truths),
        "map50_there": {name: percent(map50(each, tiled_truths)) for name, each in tiled.items()},
        "points_lost_there_95%": {
            name: lost(tiled["one"], each, tiled_truths, [sequence[row] for row in rows])
            for name, each in tiled.items()
            if name != "one"
        },
        "labelled_boxes_whole_in_one_tile": [*whole.tolist(), percent(whole[0] / max(whole[1], 1))],
        "those_the_whole_frame_shows_too": [
            *seen_whole.tolist(),
            percent(seen_whole[0] / max(seen_whole[1], 1)),
        ],
    }


def lost(
    one: Sequence[Detections], other: Sequence[Detections], truths: Sequence[Truth], groups: Sequence[int]
) -> list[float]:
    """Points of people's AP50 that ``other`` loses against ``one``; 2.5 and 97.5 % of a bootstrap.

    Whole groups of frames (sequences) are drawn: frames of one sequence show the same people.
    """
    matches = [match_class(found, truths, "person", 0) for found in (one, other)]
    member = np.array(groups)
    kinds = np.unique(member)
    chance = np.random.default_rng(1)
    draws = [np.ones(len(member))]
    for _ in range(DRAWS):
        picked = chance.choice(kinds, len(kinds))
        draws.append((picked[None] == member[:, None]).sum(1).astype(np.float64))
    points = np.array([[match.average_precision(weights) for match in matches] for weights in draws])
    points_lost = 100 * (points[:, 0] - points[:, 1])
    low, high = np.nanquantile(points_lost[1:], [0.025, 0.975])
    return [round(float(value), 2) for value in (points_lost[0], low, high)]


def percent(share: float) -> float:
    return round(100 * float(share), 2)


def visible_boxes(boxes: npt.NDArray[np.float32], found: Detections) -> npt.NDArray[np.float32]:
    """The labelled boxes that the detector finds in the whole frame: no planner can know of the others."""
    sure = found.boxes_xyxy[(found.class_ids == 0) & (found.scores >= STRONG)]
    if not len(boxes) or not len(sure):
        return boxes[:0]
    visible = np.flatnonzero(iou_matrix(boxes, sure).max(1) >= 0.5)
    return boxes[visible]


def at_least(found: Detections, min_score: float) -> Detections:
    """The detections of at least that score; the whole frame is asked for weaker ones, too."""
    return found[np.flatnonzero(found.scores >= min_score)]
