"""Figures of quality: which classes count, and the ways in one process."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from analytics.classes import COCO_NAMES
from analytics.detections import Detections
from analytics.elf import Tile
from analytics.elf.types import FramePlan
from analytics.pool import PoolResult
from bench.elf_figures import ALL_LABELS, ROAD_USERS, lost, quality
from bench.elf_quality import there_and_back
from bench.elf_quick import QuickWays, modelled
from evaluation.average_precision import Truth
from tests.support.edge_worker import ShapeDetector, frame_of, moving

PERSON, PLANE = COCO_NAMES.index("person"), COCO_NAMES.index("airplane")
FRAME_WH = (640, 384)


def found(*objects: tuple[int, float]) -> Detections:
    """Objects (class, score) side by side, 40x60 pixels each, always in the same places."""
    boxes = [(100.0 * place, 50.0, 100.0 * place + 40, 110.0) for place in range(len(objects))]
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array([score for _, score in objects], np.float32),
        np.array([class_id for class_id, _ in objects], np.int64),
        COCO_NAMES,
    )


def result(index: int, detections: Detections) -> PoolResult:
    plan = FramePlan((Tile(0, 0, *FRAME_WH, "w0"),))
    return PoolResult(index, FRAME_WH, detections, (), None, plan, 0.1, 0.0, 0.0, 0.1, {})


def ways(one: Detections, elf: Detections) -> dict[str, list[PoolResult]]:
    return {
        name: [result(index, each) for index in range(3)]
        for name, each in (("one", one), ("grid", one), ("elf", elf))
    }


def test_what_is_no_person_and_no_vehicle_counts_only_if_it_is_asked_for() -> None:
    seen = ways(found((PERSON, 0.9), (PLANE, 0.9)), found((PERSON, 0.9)))
    default, everything, planes = (quality(seen, each) for each in (ROAD_USERS, (ALL_LABELS,), ("airplane",)))
    assert default["sure_objects_missed_invented"] == [3, 0, 0]
    assert default["agreement_map50_at_0.5"] == 100
    assert everything["sure_objects_missed_invented"] == [6, 3, 0]
    assert everything["agreement_map50_at_0.5"] == pytest.approx(50)
    assert planes["sure_objects_missed_invented"] == [3, 3, 0]
    assert (default["labels"], planes["labels"]) == (list(ROAD_USERS), ["airplane"])


def test_a_person_that_tiles_miss_counts() -> None:
    seen = ways(found((PERSON, 0.9), (PERSON, 0.8)), found((PERSON, 0.9)))
    assert quality(seen, ROAD_USERS)["sure_objects_missed_invented"] == [6, 3, 0]


def test_points_lost_are_the_difference_and_their_interval_holds_them() -> None:
    one, truth = found((PERSON, 0.9), (PERSON, 0.8)), found((PERSON, 1.0), (PERSON, 1.0))
    truths = [Truth(truth.boxes_xyxy, np.zeros(2, np.int64))] * 4
    assert lost([one] * 4, [one] * 4, truths, [0, 0, 1, 1]) == [0, 0, 0]
    half = [one, one, one[:1], one[:1]]
    points, low, high = lost([one] * 4, half, truths, [0, 0, 1, 1])
    # 6 of 8 people without a mistake: precision 1 up to a recall of 0.75, which is 76 of COCO's 101 points
    assert points == pytest.approx(100 * (1 - 76 / 101), abs=0.01)
    assert low == 0  # only the first sequence drawn, twice
    assert high == pytest.approx(100 * (1 - 51 / 101), abs=0.01)  # only the second


def test_a_sequence_is_made_long_without_a_jump() -> None:
    assert there_and_back([1, 2, 3], 8) == [1, 2, 3, 2, 1, 2, 3, 2]
    assert there_and_back([1], 3) == [1, 1, 1]


def settings(**more: Any) -> argparse.Namespace:
    given = {"detector": "", "cap": 0.15, "link_mbit": 100.0, "workers": 4, "quality": 95, "min_score": 0.3}
    return argparse.Namespace(**given | {"noise_floor": True} | more)


def test_in_one_process_plans_find_what_the_whole_frame_shows_with_fewer_pixels() -> None:
    frames = [frame_of(moving(step)) for step in range(12)]
    results = QuickWays(settings(), ShapeDetector()).run(frames)
    figures, sizes = quality(results, ("shape",)), modelled(results)
    assert figures["sure_objects_missed_invented"] == [48, 0, 0]
    assert figures["agreement_map50_at_0.5"] == 100
    assert figures["boxes_whole_in_one_tile"][:2] == [44, 44]  # the first frame was sent whole
    assert sizes["cut_frames"] == 11
    assert sizes["pixels_without_looks"] < 0.5
    assert sizes["elf_modelled_ms"]["median"] < sizes["one_modelled_ms"]["median"]


def test_a_class_that_nobody_knows_is_a_usage_error() -> None:
    command = [sys.executable, "-m", "bench.elf", "--only", "planning", "--labels", "person,unicorn"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "unicorn" in done.stderr
