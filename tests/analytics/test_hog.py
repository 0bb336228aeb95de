from __future__ import annotations

import json

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from analytics import DetectorConfig, load_detector
from analytics.hog import HogDetector
from analytics.hog_features import block_histograms
from tests.analytics.assets.make_hog_golden import pattern
from tests.analytics.clips import ASSETS
from tests.analytics.test_suppression import overlap

GOLDEN = json.loads((ASSETS / "hog_golden.json").read_text())  # written by OpenCV 4.14's HOGDescriptor


def street() -> npt.NDArray[np.uint8]:
    """A real crop of OpenCV's vtest.avi with three people who are whole and one who is cut."""
    return np.asarray(cv2.imread(str(ASSETS / "street.png")), np.uint8)


# What YOLOX-nano finds in that crop at a score above 0.85.
PEOPLE = ([37.2, 17.4, 77.5, 106.9], [192.2, 46.6, 226.5, 150.3], [82.1, 14.1, 113.7, 99.7])


@pytest.mark.parametrize(("name", "picture"), [("pattern", pattern()), ("street", street())])
def test_descriptors_equal_those_of_opencv_4(name: str, picture: npt.NDArray[np.uint8]) -> None:
    blocks = block_histograms(picture)
    first, last = blocks[:15, :7], blocks[-15:, -7:]
    for window, golden in ((first, "first_window"), (last, "last_window")):
        values = window.transpose(1, 0, 2).ravel()[::20]  # OpenCV goes column by column
        assert np.abs(values - GOLDEN[name][golden]).max() < 2e-6


@pytest.mark.parametrize(("name", "picture"), [("pattern", pattern()), ("street", street())])
def test_margins_equal_those_of_opencv_4(name: str, picture: npt.NDArray[np.uint8]) -> None:
    margins = HogDetector().margins(picture)
    assert np.abs(margins.ravel() - GOLDEN[name]["margins"]).max() < 1e-4


def test_it_finds_the_people_that_yolox_finds() -> None:
    found = load_detector("hog", DetectorConfig(min_score=0.5)).detect(street())
    assert set(found.labels) == {"person"}
    for person in PEOPLE:
        assert max(overlap(person, box) for box in found.boxes_xyxy.tolist()) > 0.6


def test_people_keep_their_place_when_the_picture_is_larger() -> None:
    twice = np.asarray(cv2.resize(street(), None, fx=2, fy=2), np.uint8)
    found = load_detector("hog", DetectorConfig(min_score=0.7)).detect(twice)
    for person in PEOPLE[:2]:
        doubled = [2 * edge for edge in person]
        assert max(overlap(doubled, box) for box in found.boxes_xyxy.tolist()) > 0.5


@pytest.mark.parametrize("size_hw", [(8, 8), (95, 31), (1, 1), (40, 400)])
def test_pictures_too_small_for_a_person_hold_none(size_hw: tuple[int, int]) -> None:
    assert len(load_detector("hog").detect(np.zeros((*size_hw, 3), np.uint8))) == 0


def test_flat_pictures_hold_nobody() -> None:
    assert len(load_detector("hog").detect(np.full((300, 300, 3), 128, np.uint8))) == 0
