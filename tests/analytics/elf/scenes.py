"""Boxes and workers for planner tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from analytics.detections import Detections
from analytics.elf import FramePlan, Planner, WorkerView, merge
from analytics.interface import DetectorConfig

NAMES = ("person", "car")
FRAME = (768, 576)
Boxes = npt.NDArray[np.float64]
CONFIG = DetectorConfig(min_score=0.1)


def workers(*speeds: float, max_share: float = 1.0) -> list[WorkerView]:
    """Workers of so many Mpixel/s behind 100 Mbit/s."""
    return [
        WorkerView(f"w{index}", 1e6 * speed, 12.5e6, 0.002, 0.003, max_share)
        for index, speed in enumerate(speeds)
    ]


def found(boxes: Boxes | Sequence[Sequence[float]], score: float = 0.8) -> Detections:
    """People in these places."""
    array = np.asarray(boxes, np.float32).reshape(-1, 4)
    return Detections(array, np.full(len(array), score, np.float32), np.zeros(len(array), np.int64), NAMES)


def walkers(
    count: int, frames: int, seed: int = 1, speed: float = 2.0, frame_wh: tuple[int, int] = FRAME
) -> Iterator[Boxes]:
    """People who walk straight and turn at the frame's borders, seen with a little noise."""
    chance = np.random.default_rng(seed)
    limit = np.array(frame_wh, np.float64)
    size = chance.uniform([16, 40], [40, 120], (count, 2))
    centre = chance.uniform(size / 2, limit - size / 2)
    step = chance.normal(0, speed, (count, 2))
    for _ in range(frames):
        noise = chance.normal(0, 0.4, (count, 4))
        boxes = np.concatenate([centre - size / 2, centre + size / 2], 1) + noise
        boxes[:, :2] = np.clip(boxes[:, :2], 0, limit - 2)
        boxes[:, 2:] = np.clip(boxes[:, 2:], boxes[:, :2] + 2, limit)
        yield boxes
        step = np.where((centre < size / 2) | (centre > limit - size / 2), -step, step)
        centre = np.clip(centre + step, size / 2, limit - size / 2)


def answer(
    plan: FramePlan, truth: Detections, frame_wh: tuple[int, int] = FRAME, least_px: float = 8
) -> Detections:
    """What a perfect detector finds in the tiles: boxes of which a third lies in a tile, cut to it.

    Sides below ``least_px`` of the sent picture are too small for it.
    """
    parts = []
    boxes = truth.boxes_xyxy.astype(np.float64)
    size = np.maximum((boxes[:, 2:] - boxes[:, :2]).prod(1), 1e-9)
    for tile in plan.all_tiles:
        low, high = np.array(tile.xyxy[:2]), np.array(tile.xyxy[2:])
        cut = np.concatenate([np.maximum(boxes[:, :2], low), np.minimum(boxes[:, 2:], high)], 1)
        sides = np.clip(cut[:, 2:] - cut[:, :2], 0, None)
        seen = (sides.prod(1) / size > 1 / 3) & (sides.min(1) * tile.scale >= least_px)
        scale = np.array(tile.sent_wh * 2) / np.array([tile.width, tile.height] * 2)
        local = (cut[seen] - np.concatenate([low, low])) * scale
        parts.append((tile, Detections(local, truth.scores[seen], truth.class_ids[seen], NAMES)))
    return merge(frame_wh, parts, CONFIG, skipped=plan.skipped, names=NAMES)


def planner_that_knows(
    boxes: Boxes | Sequence[Sequence[float]], planner: Planner, team: list[WorkerView]
) -> Planner:
    """After one whole frame (number 0) in which ``boxes`` were found."""
    planner.plan(0, FRAME, team)
    planner.observe(0, found(boxes))
    return planner
