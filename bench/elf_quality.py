"""How good detections by tiles are: against whole frames and labels, for new objects, for whole boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from analytics.detections import Detections
from analytics.pool import PoolResult
from base.frames import ClearFrame
from evaluation.average_precision import Truth, iou_matrix, match_class, mean_ap

T = TypeVar("T")
Boxes = npt.NDArray[np.float32]
STRONG = 0.5  # a detection of this score is taken for an object
EDGE_PX = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One frame's result of one way, as far as quality needs it."""

    index: int
    result: PoolResult

    @property
    def found(self) -> Detections:
        """Its detections."""
        return self.result.detections


def agreement(reference: Sequence[Detections], other: Sequence[Detections], min_score: float) -> float:
    """mAP50 of ``other`` when the whole frame's detections of at least ``min_score`` are taken for the truth.

    Weaker detections of the whole frame count neither way, as a detector's threshold falls at random there.
    """
    truths = []
    for one in reference:
        sure = one.scores >= min_score
        truths.append(Truth(one.boxes_xyxy[sure], one.class_ids[sure], one.boxes_xyxy[~sure]))
    return map50(other, truths)


def differences(reference: Sequence[Detections], other: Sequence[Detections]) -> list[int]:
    """Objects that the whole frame is sure of; those ``other`` lacks; those only ``other`` is sure of."""
    sure = missed = invented = 0
    for one, two in zip(reference, other, strict=True):
        strong = one[np.flatnonzero(one.scores >= STRONG)]
        sure += len(strong)
        missed += _without_match(strong, two)
        invented += _without_match(two[np.flatnonzero(two.scores >= STRONG)], one)
    return [sure, missed, invented]


def _without_match(some: Detections, others: Detections) -> int:
    count = 0
    for row in range(len(some)):
        same = others[np.flatnonzero(others.class_ids == some.class_ids[row])]
        ious = iou_matrix(some.boxes_xyxy[row : row + 1], same.boxes_xyxy)
        count += int(not len(same) or bool(ious.max() < 0.5))
    return count


def map50(found: Sequence[Detections], truths: Sequence[Truth]) -> float:
    """Mean over the classes that occur, by their number of objects; nan without any."""
    ids = sorted({int(one) for truth in truths for one in truth.class_ids})
    if not ids:
        return float("nan")
    names = found[0].names
    matches = [match_class(found, truths, names[class_id], class_id) for class_id in ids]
    return mean_ap(matches, np.ones(len(truths)), by_objects=True)


def whole_share(results: Sequence[PoolResult], truths: Sequence[Boxes]) -> tuple[int, int]:
    """How many true boxes lie whole inside one tile of their frame, and how many there are.

    An object that stood still and was not sent counts if what stands for it lies on it (IoU 0.6).
    """
    whole = total = 0
    for result, boxes in zip(results, truths, strict=True):
        tiles = np.array(
            [outcome.tile.xyxy for outcome in result.outcomes if not outcome.is_look], np.float64
        )
        total += len(boxes)
        if not len(boxes):
            continue
        tiles = tiles.reshape(-1, 4)
        inside = (boxes[:, None, :2] >= tiles[None, :, :2] - EDGE_PX).all(2)
        inside &= (boxes[:, None, 2:] <= tiles[None, :, 2:] + EDGE_PX).all(2)
        held = np.array([one.box_xyxy for one in result.plan.skipped], np.float32).reshape(-1, 4)
        inside = np.concatenate([inside, iou_matrix(boxes, held) >= 0.6], 1)
        whole += int(inside.any(1).sum())
    return whole, total


@dataclass(frozen=True, slots=True)
class Discovery:
    """New objects: how many came, how many were found by the frame after the next look, and when."""

    came: int
    in_time: int
    delays: tuple[int, ...]


def discovery(reference: Sequence[Detections], results: Sequence[PoolResult], lasts: int = 8) -> Discovery:
    """Objects of the whole-frame detections that appear and stay, and when the tiles found them.

    An object is new if nothing of its class lay there (IoU 0.3) in the five frames before, and counts if the
    whole frame shows it in most of the ``lasts`` frames that follow. It is in time if it is found up to one
    frame after the first look that is not earlier than it is.
    """
    came = in_time = 0
    delays = []
    looks = [
        any(outcome.is_look for outcome in result.outcomes) or result.plan.covers_all for result in results
    ]
    for start in range(5, len(reference) - lasts):
        for row in np.flatnonzero(reference[start].scores >= STRONG):
            path = _follow(reference, start, int(row), lasts)
            if path is None or _was_there(reference, start, int(row)):
                continue
            came += 1
            look = next((index for index in range(start, len(results)) if looks[index]), len(results))
            first = next((index for index, box in path if _has(results[index].detections, box)), None)
            delays.append(lasts if first is None else first - start)
            in_time += first is not None and first <= look + 1
    return Discovery(came, in_time, tuple(delays))


def _was_there(reference: Sequence[Detections], start: int, row: int) -> bool:
    one = reference[start]
    for before in reference[start - 5 : start]:
        same = before.class_ids == one.class_ids[row]
        if same.any() and iou_matrix(one.boxes_xyxy[row : row + 1], before.boxes_xyxy[same]).max() >= 0.1:
            return True
    return False


def _follow(
    reference: Sequence[Detections], start: int, row: int, lasts: int
) -> list[tuple[int, Boxes]] | None:
    """The object's boxes in the frames that follow; None if it does not stay."""
    box, class_id = reference[start].boxes_xyxy[row : row + 1], reference[start].class_ids[row]
    path = [(start, box)]
    for index in range(start + 1, min(start + 3 * lasts, len(reference))):
        here = reference[index]
        candidates = here.boxes_xyxy[here.class_ids == class_id]
        if not len(candidates):
            continue
        ious = iou_matrix(box, candidates)[0]
        if ious.max() >= 0.3:
            box = candidates[ious.argmax() : ious.argmax() + 1]
            path.append((index, box))
    soon = sum(index < start + lasts for index, _ in path)
    return path if soon >= 0.75 * lasts else None


def _has(found: Detections, box: Boxes) -> bool:
    return bool(len(found)) and bool(iou_matrix(box, found.boxes_xyxy).max() >= 0.5)


def mot_sequence(folder: Path) -> tuple[list[ClearFrame], list[Truth]]:
    """Frames and labelled people (class 0) of a MOTChallenge sequence; other labels count neither way."""
    lines = np.loadtxt(folder / "gt" / "gt.txt", delimiter=",", ndmin=2)
    frames, truths = [], []
    for path in sorted((folder / "img1").glob("*.jpg")):
        number = int(path.stem)
        frames.append(clear_of(np.asarray(cv2.imread(str(path)), np.uint8)))
        mine = lines[lines[:, 0] == number]
        boxes = np.concatenate([mine[:, 2:4], mine[:, 2:4] + mine[:, 4:6]], 1).astype(np.float32)
        limit = np.array([frames[-1].width, frames[-1].height] * 2, np.float32)
        boxes = np.clip(boxes - 1, 0, limit)  # MOT counts pixels from 1
        counts = (mine[:, 6] == 1) & (mine[:, 7] == 1) & (mine[:, 8] >= 0.25)
        truths.append(Truth(boxes[counts], np.zeros(int(counts.sum()), np.int64), boxes[~counts]))
    return frames, truths


def there_and_back(items: Sequence[T], count: int) -> list[T]:
    """A short sequence made long: forwards, backwards, forwards ..., so that nothing jumps."""
    turn = [*items, *items[-2:0:-1]]
    return [turn[index % len(turn)] for index in range(count)]


def clear_of(image_bgr_hwc: npt.NDArray[np.uint8]) -> ClearFrame:
    """A picture as 4:2:0; sides become even."""
    height, width = image_bgr_hwc.shape[0] & ~1, image_bgr_hwc.shape[1] & ~1
    packed = cv2.cvtColor(image_bgr_hwc[:height, :width], cv2.COLOR_BGR2YUV_I420)
    flat = np.asarray(packed, np.uint8).reshape(-1)
    size, quarter = height * width, height * width // 4
    return ClearFrame(
        flat[:size].reshape(height, width),
        flat[size : size + quarter].reshape(height // 2, width // 2),
        flat[size + quarter :].reshape(height // 2, width // 2),
        0,
    )
