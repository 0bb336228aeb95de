"""Published detectors and the pose network, decoded here; their weights are AGPL-3.0 and not shipped."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics import Detections, Detector, DetectorConfig
from analytics.classes import COCO_NAMES
from analytics.interface import Image, check_image
from analytics.letterbox import Letterbox
from analytics.suppression import suppress
from analytics.yolox import open_session
from base.errors import MediaError, MissingDependency
from evaluation.average_precision import iou_matrix

Floats = npt.NDArray[np.float32]
Run = Callable[[Floats], Floats]
KEYPOINTS = 17

# Every detector keeps weak boxes here: average precision needs the whole curve.
CONFIG = DetectorConfig(min_score=0.005, max_overlap_iou=0.6, threads=1)
_INPUT_WH = (640, 640)


def open_onnx(path: Path, threads: int | None) -> Run:
    """An ONNX graph of one picture input, in the precision that it asks for."""
    session = open_session(path, threads)
    entry = session.get_inputs()[0]
    dtype = np.float16 if entry.type == "tensor(float16)" else np.float32

    def run(batch: Floats) -> Floats:
        return np.asarray(session.run(None, {entry.name: batch.astype(dtype)})[0], np.float32)

    return run


def open_openvino(folder: Path, threads: int | None) -> Run:
    """The network of an OpenVINO folder (one .xml).

    Raises:
        MissingDependency: openvino is not installed.
        MediaError: there is no network in the folder, or it does not load.
    """
    if importlib.util.find_spec("openvino") is None:
        raise MissingDependency(f"{folder.name} needs the extra 'openvino': pip install 'veilcam[openvino]'")
    import openvino  # noqa: PLC0415  (an extra)

    found = sorted(folder.glob("*.xml"))
    if not found:
        raise MediaError(f"{folder.name}: no .xml in it")
    core: Any = openvino.Core()
    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
    if threads:
        settings["INFERENCE_NUM_THREADS"] = threads
    try:
        request = core.compile_model(core.read_model(str(found[0])), "CPU", settings).create_infer_request()
    except RuntimeError as error:
        raise MediaError(f"{found[0].name}: does not load: {str(error)[:200]}") from error

    def run(batch: Floats) -> Floats:
        return np.array(request.infer([batch])[0], np.float32)

    return run


def _input(frame_bgr_hwc: Image) -> tuple[Letterbox, Floats]:
    """Fitted into 640x640, RGB 0 to 1, [1, 3, 640, 640]."""
    height, width = check_image(frame_bgr_hwc)
    box = Letterbox.fit((width, height), _INPUT_WH)
    rgb = box.apply(frame_bgr_hwc)[:, :, ::-1].transpose(2, 0, 1)[None]
    return box, np.ascontiguousarray(rgb / np.float32(255), np.float32)


def _corners(centre_size: Floats) -> Floats:
    centre, half = centre_size[:, :2], np.abs(centre_size[:, 2:4]) / 2
    return np.concatenate([centre - half, centre + half], 1)


class Yolov5Detector:
    """Output 1x25200x85: centre, size, objectness, 80 classes, already decoded (ultralytics/yolov5)."""

    def __init__(self, path: Path, config: DetectorConfig = CONFIG) -> None:
        self._config = config
        self._path = path
        self._run = open_onnx(path, config.threads)

    @property
    def name(self) -> str:
        """``yolov5:`` and the file name."""
        return f"yolov5:{self._path.name}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """COCO's."""
        return COCO_NAMES

    def detect(self, frame_bgr_hwc: Image) -> Detections:
        """See Detector."""
        box, batch = _input(frame_bgr_hwc)
        head = self._run(batch)[0]
        class_ids = head[:, 5:].argmax(1)
        scores = head[:, 4] * head[np.arange(len(head)), 5 + class_ids]
        return _kept(frame_bgr_hwc, box, head[:, :4], scores=scores, class_ids=class_ids, config=self._config)


class Yolov8Detector:
    """Output 1x84x8400: centre, size, 80 class scores (ultralytics YOLOv8), by OpenVINO or ONNX."""

    def __init__(self, path: Path, config: DetectorConfig = CONFIG) -> None:
        self._config = config
        self._path = path
        self._run = (open_openvino if path.is_dir() else open_onnx)(path, config.threads)

    @property
    def name(self) -> str:
        """``yolov8:`` and the file name."""
        return f"yolov8:{self._path.name}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """COCO's."""
        return COCO_NAMES

    def detect(self, frame_bgr_hwc: Image) -> Detections:
        """See Detector."""
        box, batch = _input(frame_bgr_hwc)
        head = self._run(batch)[0].T
        class_ids = head[:, 4:].argmax(1)
        scores = head[np.arange(len(head)), 4 + class_ids]
        return _kept(frame_bgr_hwc, box, head[:, :4], scores=scores, class_ids=class_ids, config=self._config)


def _kept(
    image: Image,
    box: Letterbox,
    centre_size: Floats,
    *,
    scores: Floats,
    class_ids: npt.NDArray[np.int64],
    config: DetectorConfig,
) -> Detections:
    scores = np.clip(scores, 0, 1)
    keep = scores >= config.min_score
    boxes = box.boxes_to_source(_corners(centre_size[keep]))
    placed = Detections(boxes, scores[keep], class_ids[keep], COCO_NAMES)
    return suppress(placed.clipped(image.shape[1], image.shape[0]), config)


@dataclass(frozen=True, slots=True)
class Poses:
    """People, the surest first: boxes [n, 4], scores [n], keypoints [n, 17, 3] (x, y, seen)."""

    boxes_xyxy: Floats
    scores: Floats
    keypoints: Floats


class PoseNetwork:
    """YOLOv8-pose, output 1x56x8400: centre, size, score, 17 times x, y, visibility."""

    def __init__(self, path: Path, *, min_score: float = 0.05, threads: int | None = 1) -> None:
        self._min_score = min_score
        self._run = (open_openvino if path.is_dir() else open_onnx)(path, threads)
        self.name = f"yolov8-pose:{path.name}"

    def __call__(self, frame_bgr_hwc: Image) -> Poses:
        """People in pixels of the picture, after suppression at IoU 0.65."""
        box, batch = _input(frame_bgr_hwc)
        head = self._run(batch)[0].T
        head = head[head[:, 4] >= self._min_score]
        head = head[np.argsort(-head[:, 4], kind="stable")][:300]
        boxes = box.boxes_to_source(_corners(head[:, :4]))
        found = Detections(boxes, np.clip(head[:, 4], 0, 1), np.zeros(len(head), np.int64), COCO_NAMES)
        kept = _rows_kept(found)
        points = head[:, 5:].reshape(-1, KEYPOINTS, 3)[kept]
        corners = box.boxes_to_source(np.tile(points[..., :2].reshape(-1, 2), 2))[:, :2]
        placed = np.concatenate([corners.reshape(-1, KEYPOINTS, 2), points[..., 2:]], 2)
        return Poses(found.boxes_xyxy[kept], found.scores[kept], placed.astype(np.float32))


def _rows_kept(found: Detections) -> npt.NDArray[np.int64]:
    """Row numbers that greedy suppression keeps; rows are sorted by score already."""
    overlaps = iou_matrix(found.boxes_xyxy, found.boxes_xyxy)
    kept: list[int] = []
    for row in range(len(found)):
        if not kept or overlaps[row, kept].max() <= 0.65:
            kept.append(row)
    return np.array(kept, np.int64)


def open_detectors(yolov5: Path | None, yolov8: Path | None) -> list[Detector]:
    """The detectors whose weights are there; none of them was used in training."""
    found: list[Detector] = []
    if yolov5 is not None:
        found.append(Yolov5Detector(yolov5))
    if yolov8 is not None:
        found.append(Yolov8Detector(yolov8))
    return found
