from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analytics import Detections, DetectorConfig
from analytics.suppression import suppress

NAMES = ("a", "b")


def overlap(first: list[float], second: list[float]) -> float:
    """IoU in plain Python."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return shared / (sum(areas) - shared)


def greedy(found: Detections, config: DetectorConfig) -> list[int]:
    """The textbook algorithm, one pair at a time."""
    boxes, kept = found.boxes_xyxy.tolist(), list[int]()
    for row in np.argsort(-found.scores, kind="stable").tolist():
        same = [other for other in kept if found.class_ids[other] == found.class_ids[row]]
        if found.scores[row] >= config.min_score and all(
            overlap(boxes[row], boxes[other]) <= config.max_overlap_iou for other in same
        ):
            kept.append(row)
    return kept


@st.composite
def scenes(draw: st.DrawFn) -> Detections:
    count = draw(st.integers(0, 30))
    numbers = st.lists(st.integers(0, 60), min_size=count, max_size=count)
    corners = np.array([draw(numbers), draw(numbers)], np.float32).T.reshape(count, 2)
    sizes = np.array([draw(numbers), draw(numbers)], np.float32).T.reshape(count, 2) + 1
    order = draw(st.permutations(range(1, count + 1)))
    scores = np.array(order, np.float32) / (count + 1)
    class_ids = np.array(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)), np.int64)
    boxes = np.concatenate([corners, corners + sizes], 1)
    return Detections(boxes, scores.astype(np.float32), class_ids, NAMES)


@given(scenes(), st.sampled_from([0.311, 0.5017, 0.707]))
def test_it_keeps_what_the_textbook_algorithm_keeps(found: Detections, max_overlap_iou: float) -> None:
    config = DetectorConfig(min_score=0.2, max_overlap_iou=max_overlap_iou)
    assert suppress(found, config) == found[greedy(found, config)]


def test_boxes_of_two_classes_do_not_suppress_each_other() -> None:
    boxes = np.array([[0, 0, 10, 10]] * 3, np.float32)
    found = suppress(
        Detections(boxes, np.array([0.5, 0.9, 0.7], np.float32), np.array([0, 0, 1]), NAMES), DetectorConfig()
    )
    assert found.scores.tolist() == np.array([0.9, 0.7], np.float32).tolist()
    assert found.labels == ("a", "b")


def test_at_most_the_asked_number_is_kept_and_the_strongest_first() -> None:
    boxes = np.array([[20 * index, 0, 20 * index + 10, 10] for index in range(9)], np.float32)
    scores = np.array([0.3, 0.9, 0.5, 0.4, 0.8, 0.6, 0.7, 0.35, 0.45], np.float32)
    found = suppress(
        Detections(boxes, scores, np.zeros(9, np.int64), NAMES), DetectorConfig(max_detections=3)
    )
    assert found.scores.tolist() == sorted(scores.tolist(), reverse=True)[:3]
