"""Average precision, its bootstrap, and the codec in front of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics import Detections
from base.errors import UsageError
from evaluation.average_precision import ClassMatches, Truth, match_class, mean_ap
from evaluation.camera import Camera
from evaluation.data import read_labels
from evaluation.statistics import bootstrap_weights, interval_95
from tests.analytics.test_hog import street

NAMES = ("person", "car")


def found(*rows: tuple[float, int, tuple[float, float, float, float]]) -> Detections:
    boxes = np.array([row[2] for row in rows], np.float32).reshape(-1, 4)
    scores = np.array([row[0] for row in rows], np.float32)
    return Detections(boxes, scores, np.array([row[1] for row in rows], np.int64), NAMES)


def truth(*rows: tuple[int, tuple[float, float, float, float]]) -> Truth:
    boxes = np.array([row[1] for row in rows], np.float32).reshape(-1, 4)
    return Truth(boxes, np.array([row[0] for row in rows], np.int64))


LEFT, RIGHT, FAR = (0.0, 0.0, 10.0, 10.0), (20.0, 0.0, 30.0, 10.0), (50.0, 50.0, 60.0, 60.0)


def test_average_precision_by_hand() -> None:
    # Strongest first: true, false, true, of three objects. Precision 1 up to recall 1/3 (34 of the 101
    # points), 2/3 up to recall 2/3 (33 points), then 0.
    detections = [found((0.9, 0, LEFT), (0.8, 0, FAR)), found((0.7, 0, RIGHT))]
    labels = [truth((0, LEFT), (0, RIGHT)), truth((0, RIGHT))]
    matches = match_class(detections, labels, "person", 0)
    assert matches.is_true.tolist() == [True, False, True]
    assert matches.average_precision(np.ones(2)) == pytest.approx((34 + 33 * 2 / 3) / 101)


def test_an_object_is_found_once_only() -> None:
    matches = match_class([found((0.9, 0, LEFT), (0.8, 0, LEFT))], [truth((0, LEFT))], "person", 0)
    assert matches.is_true.tolist() == [True, False]


def test_half_overlap_is_enough_and_less_is_not() -> None:
    half, less = (0.0, 0.0, 10.0, 5.0), (0.0, 0.0, 10.0, 4.9)
    matches = match_class([found((0.9, 0, half)), found((0.8, 0, less))], [truth((0, LEFT))] * 2, "person", 0)
    assert matches.is_true.tolist() == [True, False]


def test_other_classes_do_not_match() -> None:
    matches = match_class([found((0.9, 1, LEFT))], [truth((0, LEFT))], "person", 0)
    assert matches.average_precision(np.ones(1)) == 0.0


def test_a_class_without_objects_is_left_out_of_the_mean() -> None:
    labels = [truth((0, LEFT))]
    matches = [match_class([found((0.9, 0, LEFT))], labels, name, index) for index, name in enumerate(NAMES)]
    assert np.isnan(matches[1].average_precision(np.ones(1)))
    assert mean_ap(matches, np.ones(1)) == 1.0


def test_the_mean_takes_classes_alike_or_by_their_objects() -> None:
    labels = [truth((0, LEFT), (0, RIGHT), (0, FAR), (1, LEFT))]
    detections = [found((0.9, 0, LEFT), (0.8, 0, RIGHT), (0.7, 0, FAR))]
    matches = [match_class(detections, labels, name, index) for index, name in enumerate(NAMES)]
    assert mean_ap(matches, np.ones(1)) == pytest.approx(1 / 2)
    assert mean_ap(matches, np.ones(1), by_objects=True) == pytest.approx(3 / 4)


def plain_ap(is_true: list[bool], num_objects: int) -> float:
    """The definition: at each of 101 recalls the best precision reached at that recall or a higher one."""
    points = []
    for count in range(1, len(is_true) + 1):
        true = sum(is_true[:count])
        points.append((true, true / count))
    return (
        sum(
            max([precision for true, precision in points if 100 * true >= step * num_objects] or [0.0])
            for step in range(101)
        )
        / 101
    )


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=40), st.integers(0, 20))
def test_it_is_the_definition(is_true: list[bool], num_missed: int) -> None:
    num_objects = sum(is_true) + num_missed
    if not num_objects:
        return
    index = np.zeros(len(is_true), np.int64)
    matches = ClassMatches(index, np.array(is_true, np.bool_), np.array([num_objects], np.int64))
    assert matches.average_precision(np.ones(1)) == pytest.approx(plain_ap(is_true, num_objects))


def test_weights_count_an_image_as_often_as_copies_of_it() -> None:
    detections = [found((0.9, 0, LEFT), (0.6, 0, FAR)), found((0.7, 0, FAR)), found((0.8, 0, RIGHT))]
    labels = [truth((0, LEFT)), truth((0, LEFT)), truth((0, RIGHT), (0, LEFT))]
    weighted = match_class(detections, labels, "person", 0).average_precision(np.array([2.0, 0.0, 1.0]))
    copied = match_class([detections[i] for i in (0, 0, 2)], [labels[i] for i in (0, 0, 2)], "person", 0)
    assert weighted == pytest.approx(copied.average_precision(np.ones(3)))


def test_the_bootstrap_resamples_as_many_images_as_there_are() -> None:
    weights = bootstrap_weights(20, 500)
    assert (weights.sum(1) == 20).all()
    assert (weights == bootstrap_weights(20, 500)).all()
    low, high = interval_95((weights[:, 0] + 0.0).tolist())
    assert (low, high) == (0.0, 3.0)  # Binomial(20, 1/20): P(<= 3) = 98.4 %, P(<= 2) = 92.5 %


def test_labels_are_read_in_pixels(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("2 0.5 0.5 0.5 1.0\n\n0 0.25 0.25 0.1 0.1\n")
    labels = read_labels(tmp_path / "a.txt", 200, 100)
    assert labels.boxes_xyxy[0].tolist() == [50, 0, 150, 100]
    assert labels.class_ids.tolist() == [2, 0]
    assert len(read_labels(tmp_path / "none.txt", 200, 100).class_ids) == 0
    (tmp_path / "bad.txt").write_text("person 0.5 0.5\n")
    with pytest.raises(UsageError, match="lines of class, x, y, w, h"):
        read_labels(tmp_path / "bad.txt", 200, 100)


def test_what_lies_on_an_ignored_region_is_neither_right_nor_wrong() -> None:
    labels = [Truth(np.array([LEFT], np.float32), np.zeros(1, np.int64), np.array([RIGHT], np.float32))]
    matches = match_class([found((0.9, 0, RIGHT), (0.8, 0, FAR), (0.7, 0, LEFT))], labels, "person", 0)
    assert matches.is_true.tolist() == [False, True]  # FAR is wrong, RIGHT does not count


@pytest.mark.parametrize(("height", "width"), [(184, 256), (47, 65)])
def test_the_codec_returns_the_same_size_and_nearly_the_same_picture(height: int, width: int) -> None:
    picture = street()[:height, :width]
    fine, coarse = (Camera(crf=crf).clear_still(picture) for crf in (12, 35))
    assert fine.image.shape == picture.shape
    assert np.abs(fine.image.astype(int) - picture).mean() < 6
    assert 4 * coarse.bits < fine.bits < 8 * picture.size
