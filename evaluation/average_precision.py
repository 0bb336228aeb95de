"""Average precision at IoU 0.5 as COCO computes it, with a bootstrap over images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from analytics import Detections

Floats = npt.NDArray[np.float64]
MIN_IOU = 0.5
_RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True, slots=True)
class Truth:
    """The labelled objects of one image: boxes [n, 4] in pixels and COCO class ids [n].

    Detections that lie on a box of ``ignored`` [m, 4] and find no object count neither way.
    """

    boxes_xyxy: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int64]
    ignored: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 4), np.float32))


@dataclass(frozen=True, slots=True)
class ClassMatches:
    """All detections of one class in a set of images, the strongest first.

    Attributes:
        image_index: [n], which image each detection is in.
        is_true: [n], whether it found a labelled object that no stronger one found.
        num_objects: [images], labelled objects of the class in each image.
    """

    image_index: npt.NDArray[np.int64]
    is_true: npt.NDArray[np.bool_]
    num_objects: npt.NDArray[np.int64]

    def average_precision(self, image_weights: Floats) -> float:
        """101-point interpolated average precision, each image counted so many times; nan without objects."""
        num_objects = float(self.num_objects @ image_weights)
        if not num_objects:
            return float("nan")
        weights = image_weights[self.image_index]
        found = np.cumsum(weights * self.is_true)
        precision = found / np.maximum(np.cumsum(weights), 1e-12)
        envelope = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
        return float(envelope[np.searchsorted(found / num_objects, _RECALLS - 1e-12)].mean())


def match_class(
    found: Sequence[Detections], truth: Sequence[Truth], label: str, class_id: int
) -> ClassMatches:
    """Match the detections called ``label`` to the objects of ``class_id``, image by image."""
    image_index, scores, is_true = [], [], []
    for index, (one_found, one_truth) in enumerate(zip(found, truth, strict=True)):
        rows = one_found.with_labels([label])
        rows = rows[np.argsort(-rows.scores, kind="stable")]
        objects = one_truth.boxes_xyxy[one_truth.class_ids == class_id]
        true = _match_image(iou_matrix(rows.boxes_xyxy, objects))
        counts = true | ~_lies_on(rows.boxes_xyxy, one_truth.ignored)
        image_index.append(np.full(int(counts.sum()), index))
        scores.append(rows.scores[counts])
        is_true.append(true[counts])
    order = np.argsort(-np.concatenate(scores), kind="stable")
    num_objects = np.array([int((one.class_ids == class_id).sum()) for one in truth], np.int64)
    return ClassMatches(np.concatenate(image_index)[order], np.concatenate(is_true)[order], num_objects)


def iou_matrix(first_xyxy: npt.NDArray[np.float32], second_xyxy: npt.NDArray[np.float32]) -> Floats:
    """Intersection over union of every box of [n, 4] with every box of [m, 4]: [n, m]."""
    first, second = first_xyxy.astype(np.float64)[:, None], second_xyxy.astype(np.float64)[None]
    sides = np.clip(
        np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(first[..., :2], second[..., :2]), 0, None
    )
    overlap = sides.prod(2)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(2) for boxes in (first, second)]
    result: Floats = overlap / np.maximum(areas[0] + areas[1] - overlap, 1e-9)
    return result


def _lies_on(
    boxes_xyxy: npt.NDArray[np.float32], regions_xyxy: npt.NDArray[np.float32]
) -> npt.NDArray[np.bool_]:
    """Which boxes have half of their own area inside one region."""
    if not len(boxes_xyxy) or not len(regions_xyxy):
        return np.zeros(len(boxes_xyxy), np.bool_)
    boxes, regions = boxes_xyxy.astype(np.float64)[:, None], regions_xyxy.astype(np.float64)[None]
    sides = np.minimum(boxes[..., 2:], regions[..., 2:]) - np.maximum(boxes[..., :2], regions[..., :2])
    inside = np.clip(sides, 0, None).prod(2)
    area = (boxes[..., 2:] - boxes[..., :2]).prod(2)
    return np.asarray((inside >= 0.5 * np.maximum(area, 1e-9)).any(1), np.bool_)


def _match_image(ious: Floats) -> npt.NDArray[np.bool_]:
    """Greedy, the strongest detection first: each takes the free object that it overlaps most."""
    is_true = np.zeros(len(ious), np.bool_)
    free = np.ones(ious.shape[1], np.bool_)
    for row, overlaps in enumerate(ious):
        candidates = np.where(free, overlaps, 0.0)
        if len(candidates) and candidates.max() >= MIN_IOU:
            free[candidates.argmax()] = False
            is_true[row] = True
    return is_true


def mean_ap(matches: Sequence[ClassMatches], image_weights: Floats, *, by_objects: bool = False) -> float:
    """Mean over the classes that have objects; nan if none has.

    Every class counts the same as in COCO, or, with ``by_objects``, as often as it has objects: steadier
    where rare classes have a handful.
    """
    counts = np.array([one.num_objects @ image_weights for one in matches])
    known = np.flatnonzero(counts).tolist()
    if not known:
        return float("nan")
    values = [matches[index].average_precision(image_weights) for index in known]
    return float(np.average(values, weights=counts[known] if by_objects else None))
