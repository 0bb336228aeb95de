from __future__ import annotations

import importlib.util

import pytest

from analytics import DetectorConfig, load_detector
from base.errors import MissingDependency, UsageError


@pytest.mark.parametrize("spec", ["", "yolo", "hog:x", "ultralytics:", "ultralytics", "yolox-m", "yolox:"])
def test_an_unknown_spec_lists_the_known_ones(spec: str) -> None:
    with pytest.raises(UsageError, match="expected one of yolox, yolox-tiny"):
        load_detector(spec)


def test_ultralytics_without_its_extra_names_the_extra() -> None:
    if importlib.util.find_spec("ultralytics"):
        pytest.skip("ultralytics is installed")
    with pytest.raises(MissingDependency, match=r"veilcam\[yolo\]"):
        load_detector("ultralytics:yolov8n.pt")


@pytest.mark.parametrize(
    "bad", [{"min_score": 1.5}, {"max_overlap_iou": -0.1}, {"max_detections": 0}, {"threads": 0}]
)
def test_thresholds_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        DetectorConfig(**bad)  # type: ignore[arg-type]  # that is the point
