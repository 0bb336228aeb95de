"""The published networks on a real crop of a street; they need weights that the repository does not hold."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from analytics import load_detector
from analytics.weights import WEIGHTS, model_folder
from tests.analytics.clips import ASSETS
from tests.analytics.test_hog import PEOPLE
from tests.analytics.test_suppression import overlap


@pytest.mark.parametrize("spec", ["yolox", "yolox-tiny"])
def test_yolox_finds_the_people_in_a_real_picture(spec: str) -> None:
    if not (model_folder() / WEIGHTS[spec].file_name).is_file():
        pytest.skip(f"{WEIGHTS[spec].file_name} is not in {model_folder()} (VEILCAM_MODEL_DIR)")
    found = load_detector(spec).detect(np.asarray(cv2.imread(str(ASSETS / "street.png")), np.uint8))
    people = found.with_labels(["person"]).boxes_xyxy.tolist()
    for person in PEOPLE:
        assert max(overlap(person, box) for box in people) > 0.8


def test_ultralytics_finds_the_people_in_a_real_picture(capfd: pytest.CaptureFixture[str]) -> None:
    if not importlib.util.find_spec("ultralytics"):  # importorskip would import it before the detector does
        pytest.skip("the extra 'yolo' is not installed")
    model = os.environ.get("VEILCAM_TEST_ULTRALYTICS")
    if not model or not Path(model).exists():
        pytest.skip("VEILCAM_TEST_ULTRALYTICS names no detection model")
    found = load_detector(f"ultralytics:{model}").detect(
        np.asarray(cv2.imread(str(ASSETS / "street.png")), np.uint8)
    )
    people = found.with_labels(["person"]).boxes_xyxy.tolist()
    assert max(overlap(PEOPLE[0], box) for box in people) > 0.7
    assert capfd.readouterr().out == ""
