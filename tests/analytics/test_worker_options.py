"""Names of served models, and what a worker needs installed."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from analytics.oip import protobuf
from analytics.worker.options import Served, WorkerOptions
from analytics.worker.server import Worker
from base.errors import MissingDependency, UsageError
from tests.analytics.clips import TINY_YOLOX
from tests.analytics.serving_worker import ANY_PORT, OPTIONS


@pytest.mark.parametrize(
    ("text", "name", "spec"),
    [
        ("yolox", "yolox-nano", "yolox"),
        ("yolox-tiny", "yolox-tiny", "yolox-tiny"),
        ("hog", "hog", "hog"),
        ("yolox:/models/my net.onnx", "my-net", "yolox:/models/my net.onnx"),
        ("ultralytics:yolo11n.pt", "yolo11n", "ultralytics:yolo11n.pt"),
        ("fast=yolox:/a=b.onnx", "fast", "yolox:/a=b.onnx"),
    ],
)
def test_a_detector_is_named_after_itself_or_as_told(text: str, name: str, spec: str) -> None:
    assert Served.detector(text) == Served(name, spec)


def test_an_onnx_file_is_named_after_itself_or_as_told() -> None:
    assert Served.model("/models/yolox_s.onnx") == Served("yolox_s", "/models/yolox_s.onnx")
    assert Served.model("raw=/models/x.onnx") == Served("raw", "/models/x.onnx")


@pytest.mark.parametrize("text", ["detector=hog", "=hog", "a/b=hog", "-a=hog", "x" * 65 + "=hog", "é=hog"])
def test_names_that_do_not_fit_a_path_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="model name"):
        Served.detector(text)


def test_two_models_of_one_name_and_none_at_all_are_refused() -> None:
    with pytest.raises(UsageError, match="different names"):
        replace(OPTIONS, models=(Served("tiny", "x.onnx"),)).check()
    with pytest.raises(UsageError, match="at least one"):
        WorkerOptions().check()


@pytest.mark.parametrize("package", ["grpc", "google.protobuf"])
def test_grpc_names_its_extra_when_it_is_missing(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    protobuf.message_classes.cache_clear()
    options = WorkerOptions(listen=ANY_PORT, grpc=ANY_PORT, detectors=(Served("hog", "hog"),))
    with pytest.raises(MissingDependency, match=r"pip install 'veilcam\[worker\]'"):
        Worker(options)
    Worker(replace(options, grpc=None))  # REST does without


def test_yolox_names_its_extra_when_onnx_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependency, match=r"pip install 'veilcam\[worker\]'"):
        Worker(WorkerOptions(listen=ANY_PORT, detectors=(Served("tiny", TINY_YOLOX),)))
