"""Keypoint similarity and its average precision, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.detectors import Poses
from evaluation.pose import AREA_OF_BOX, SIGMAS, Reference, keypoint_ap, match_poses, oks


def pose(shift: float = 0.0, score: float = 0.9) -> Poses:
    points = np.zeros((1, 17, 3), np.float32)
    points[0, :, 0] = np.arange(17) * 5 + shift
    points[0, :, 1] = 40
    points[0, :, 2] = 0.9
    box = np.array([[0, 0, 100, 100]], np.float32)
    return Poses(box, np.array([score], np.float32), points)


def test_there_is_one_sigma_per_keypoint_as_coco_publishes_them() -> None:
    assert len(SIGMAS) == 17
    assert SIGMAS[[0, 5, 11, 16]].tolist() == [0.026, 0.079, 0.107, 0.089]  # nose, shoulder, hip, ankle


def test_equal_poses_are_alike_and_the_formula_holds_for_a_shift() -> None:
    reference = Reference.of(pose())
    assert reference.areas[0] == pytest.approx(AREA_OF_BOX * 100 * 100)
    assert oks(pose().keypoints, reference)[0, 0] == pytest.approx(1)
    # COCO: exp(-d^2 / (2 s^2 k^2)) with k = 2 sigma and s^2 the area, mean over the keypoints seen.
    expected = np.mean(np.exp(-(7.0**2) / (2 * reference.areas[0] * (2 * SIGMAS) ** 2)))
    assert oks(pose(7.0).keypoints, reference)[0, 0] == pytest.approx(expected)


def test_unsure_people_are_no_reference() -> None:
    assert len(Reference.of(pose(score=0.5)).areas) == 0


def test_average_precision_falls_with_what_is_lost_and_invented() -> None:
    references = [Reference.of(pose()), Reference.of(pose())]
    levels = (0.5, 0.95)

    def ap(found: list[Poses]) -> float:
        return keypoint_ap([match_poses(found, references, level) for level in levels], np.ones(2))

    assert ap([pose(), pose()]) == 1.0
    far = pose(300.0, score=0.95)  # wrong and surer than the right one: precision 1/2 up to recall 1/2
    assert ap([far, pose()]) == pytest.approx(51 / 101 / 2)
    near = pose(7.0)  # alike at 0.5, not at 0.95
    assert ap([near, near]) == pytest.approx(0.5)
