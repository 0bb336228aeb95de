from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from analytics.pool.answer import MAX_BOXES, checked_detections, checked_times
from base.errors import FormatError, LimitExceeded, Malformed

NAMES = ("person", "car")
WH = (100, 60)


def check(boxes: Any, scores: Any, class_ids: Any) -> Any:
    return checked_detections(
        np.asarray(boxes, np.float32).reshape(-1, 4),
        np.asarray(scores, np.float32),
        np.asarray(class_ids),
        NAMES,
        WH,
    )


def test_a_good_answer_is_taken_and_cut_to_the_tile() -> None:
    found = check([[-1.5, 0, 101, 61], [10, 10, 20, 20]], [0.5, 1.0], [0, 1])
    assert found.boxes_xyxy.tolist() == [[0, 0, 100, 60], [10, 10, 20, 20]]
    assert found.labels == ("person", "car")


@pytest.mark.parametrize(
    ("box", "score", "class_id"),
    [
        ([10, 10, 200, 20], 0.5, 0),
        ([-30, 10, 20, 20], 0.5, 0),
        ([20, 10, 10, 20], 0.5, 0),
        ([np.nan, 10, 20, 20], 0.5, 0),
        ([10, 10, np.inf, 20], 0.5, 0),
        ([10, 10, 20, 20], 1.5, 0),
        ([10, 10, 20, 20], -0.1, 0),
        ([10, 10, 20, 20], np.nan, 0),
        ([10, 10, 20, 20], 0.5, 2),
        ([10, 10, 20, 20], 0.5, -1),
    ],
)
def test_what_no_honest_detector_says_is_refused(box: list[float], score: float, class_id: int) -> None:
    with pytest.raises(Malformed):
        check([box], [score], [class_id])


def test_shapes_that_do_not_fit_and_other_kinds_of_numbers_are_refused() -> None:
    boxes, scores, ids = np.zeros((2, 4), np.float32), np.zeros(2, np.float32), np.zeros(2, np.int64)
    for wrong in (
        (boxes[:1], scores, ids),
        (boxes, scores[:1], ids),
        (boxes, scores, ids[:1]),
        (boxes.reshape(-1), scores, ids),
        (boxes.astype(np.int64), scores, ids),
        (boxes, scores, scores),
        (np.float32(1), scores, ids),
    ):
        with pytest.raises(Malformed):
            checked_detections(np.asarray(wrong[0]), np.asarray(wrong[1]), np.asarray(wrong[2]), NAMES, WH)


def test_too_many_boxes_are_refused_before_they_are_looked_at() -> None:
    count = MAX_BOXES + 1
    with pytest.raises(LimitExceeded):
        check(np.full((count, 4), np.nan), np.zeros(count), np.zeros(count, np.int64))


@given(
    arrays.arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(3, 5))),
    arrays.arrays(np.float32, st.integers(0, 5)),
    arrays.arrays(np.int64, st.integers(0, 5)),
)
def test_whatever_comes_either_fits_in_the_tile_or_is_refused(boxes: Any, scores: Any, ids: Any) -> None:
    try:
        found = checked_detections(boxes, scores, ids, NAMES, WH)
    except FormatError:
        return
    assert (found.boxes_xyxy >= 0).all()
    assert (found.boxes_xyxy <= [100, 60, 100, 60]).all()


def test_a_worker_cannot_have_worked_longer_than_its_answer_took() -> None:
    assert checked_times(1000, (2000, 3000), 0.02) == (0.001, 0.005)
    assert checked_times(None, (None, None), 0.02) == (None, None)
    for queue, busy in (
        (10**6, (0,)),
        (0, (10**6,)),
        (-1, (0,)),
        ("1", (0,)),
        (True, (0,)),
        (0.5, (0,)),
        (10**12, (0,)),
    ):
        with pytest.raises(Malformed):
            checked_times(queue, busy, 0.02)
