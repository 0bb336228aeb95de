from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analytics import Detections
from base.errors import UsageError

NAMES = ("person", "car")


def make(count: int) -> Detections:
    corners = np.arange(4 * count, dtype=np.float32).reshape(count, 4)
    corners[:, 2:] += 10
    return Detections(corners, np.linspace(0.9, 0.1, count, dtype=np.float32), np.arange(count) % 2, NAMES)


@pytest.mark.parametrize(
    ("boxes", "scores", "class_ids", "message"),
    [
        (np.zeros((2, 5)), np.zeros(2), np.zeros(2), "boxes_xyxy: expected shape [n, 4], got [2, 5]"),
        (np.zeros(4), np.zeros(1), np.zeros(1), "boxes_xyxy: expected shape [n, 4], got [4]"),
        (np.zeros((2, 4)), np.zeros(3), np.zeros(2), "scores: expected shape [2] like boxes_xyxy, got [3]"),
        (
            np.zeros((2, 4)),
            np.zeros(2),
            np.zeros((2, 1)),
            "class_ids: expected shape [2] like boxes_xyxy, got [2, 1]",
        ),
        (np.array([[5, 0, 4, 1]]), np.zeros(1), np.zeros(1), "right >= left"),
        (np.array([[0, np.nan, 4, 1]]), np.zeros(1), np.zeros(1), "finite"),
        (np.zeros((1, 4)), np.array([1.5]), np.zeros(1), "scores: expected values from 0 to 1"),
        (np.zeros((1, 4)), np.array([np.nan]), np.zeros(1), "scores: expected values from 0 to 1"),
        (np.zeros((1, 4)), np.zeros(1), np.array([2]), "class_ids: expected 0 to 1, got 2 to 2"),
        (np.zeros((1, 4)), np.zeros(1), np.array([-1]), "class_ids: expected 0 to 1, got -1 to -1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_their_shapes(
    boxes: npt.NDArray[np.float32],
    scores: npt.NDArray[np.float32],
    class_ids: npt.NDArray[np.int64],
    message: str,
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Detections(boxes, scores, class_ids, NAMES)


def test_types_are_fixed_whatever_comes_in() -> None:
    wide: Any = np.zeros((1, 4), np.float64)
    found = Detections(wide, wide[0, :1], wide[0, :1], NAMES)
    kinds = [str(array.dtype) for array in (found.boxes_xyxy, found.scores, found.class_ids)]
    assert kinds == ["float32", "float32", "int64"]


def test_every_kind_of_index_gives_rows_that_belong_together() -> None:
    found = make(4)
    assert found[1].to_json() == [found.to_json()[1]]
    assert found[1:3].to_json() == found.to_json()[1:3]
    assert found[[3, 0]].to_json() == [found.to_json()[3], found.to_json()[0]]
    assert found[found.class_ids == 1].labels == ("car", "car")
    assert len(found[[]]) == 0


def test_concatenation_keeps_order_and_refuses_other_names() -> None:
    assert Detections.concatenate([make(3)[:1], make(3)[1:]]) == make(3)
    assert len(Detections.concatenate([Detections.empty(NAMES), make(2)])) == 2
    with pytest.raises(UsageError, match="different class names"):
        Detections.concatenate([make(1), Detections.empty(("dog",))])
    with pytest.raises(UsageError, match="got none"):
        Detections.concatenate([])


def test_labels_select_rows_by_name() -> None:
    assert make(5).with_labels(["car"]) == make(5)[[1, 3]]
    assert len(make(5).with_labels(["dog"])) == 0


def test_clipping_cuts_to_the_picture_and_drops_what_is_outside() -> None:
    boxes = np.array([[-5, -5, 5, 5], [90, 90, 120, 95], [200, 0, 210, 10]], np.float32)
    found = Detections(boxes, np.ones(3, np.float32), np.zeros(3, np.int64), NAMES).clipped(100, 80)
    assert found.boxes_xyxy.tolist() == [[0, 0, 5, 5]]


def test_json_holds_label_score_and_box() -> None:
    found = Detections(np.array([[1, 2.125, 3, 4]]), np.array([0.51234567]), np.array([1]), NAMES)
    assert json.loads(json.dumps(found.to_json())) == [
        {"label": "car", "score": 0.5123, "box_xyxy": [1.0, 2.12, 3.0, 4.0]}
    ]


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(0, 6), st.integers(0, 6))),
    hnp.arrays(np.float32, st.integers(0, 6)),
    hnp.arrays(np.int64, st.integers(0, 6)),
)
def test_any_arrays_are_either_valid_or_refused(
    boxes: npt.NDArray[np.float32], scores: npt.NDArray[np.float32], class_ids: npt.NDArray[np.int64]
) -> None:
    try:
        found = Detections(boxes, scores, class_ids, NAMES)
    except UsageError:
        return
    assert len(found.to_json()) == len(found.labels) == len(boxes)
    assert found == found[:]


def test_detections_are_not_hashable_and_differ_from_other_things() -> None:
    assert make(2) != make(3)
    assert make(2) != "detections"
    with pytest.raises(TypeError):
        hash(make(1))
