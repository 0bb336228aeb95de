"""YOLOv5's ONNX head as a detector, to measure with; its weights are AGPL-3.0 and not shipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from analytics import Detections, DetectorConfig
from analytics.classes import COCO_NAMES
from analytics.interface import Image, check_image
from analytics.letterbox import Letterbox
from analytics.suppression import suppress
from analytics.yolox import open_session

_INPUT_WH = (640, 640)


class Yolov5Detector:
    """Input 1x3x640x640 RGB from 0 to 1; output 1x25200x85: centre, size, objectness, 80 classes, decoded."""

    def __init__(self, path: Path, config: DetectorConfig) -> None:
        self._config = config
        self._path = path
        self._session = open_session(path, config.threads)
        self._input = self._session.get_inputs()[0]
        self._dtype = np.float16 if self._input.type == "tensor(float16)" else np.float32

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
        height, width = check_image(frame_bgr_hwc)
        box = Letterbox.fit((width, height), _INPUT_WH)
        rgb = box.apply(frame_bgr_hwc)[:, :, ::-1].transpose(2, 0, 1)[None] / 255
        (raw,) = self._session.run(None, {self._input.name: rgb.astype(self._dtype)})
        head = raw[0].astype(np.float32)
        class_ids = head[:, 5:].argmax(1)
        scores = np.clip(head[:, 4] * head[np.arange(len(head)), 5 + class_ids], 0, 1)
        keep = scores >= self._config.min_score
        centre, half = head[keep, :2], np.abs(head[keep, 2:4]) / 2
        boxes = box.boxes_to_source(np.concatenate([centre - half, centre + half], 1))
        placed = Detections(boxes, scores[keep], class_ids[keep], COCO_NAMES)
        return suppress(placed.clipped(width, height), self._config)
