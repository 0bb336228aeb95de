"""The one place that touches the ultralytics package (AGPL-3.0, extra ``yolo``)."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from typing import Any

import numpy as np

from analytics.detections import Detections
from analytics.interface import DetectorConfig, Image, check_image
from base.errors import MediaError, MissingDependency


class UltralyticsDetector:
    """An unmodified detection model of the ultralytics package, by its name or path.

    Raises:
        MissingDependency: the package is not installed.
        MediaError: it cannot load the model.
    """

    def __init__(self, model: str, config: DetectorConfig | None = None) -> None:
        load = _import_yolo(model)
        self._config = config or DetectorConfig()
        self._model_name = model
        try:
            self._model = load(model, task="detect")
            names = self._model.names
        except Exception as error:  # ultralytics raises whatever its back ends raise
            message = f"ultralytics:{model}: the model does not load: {str(error)[:200]}"
            raise MediaError(message) from error
        self._names = tuple(str(names[index]) for index in sorted(names))

    @property
    def name(self) -> str:
        """``ultralytics:`` and the model."""
        return f"ultralytics:{self._model_name}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The model's own names."""
        return self._names

    def detect(self, frame_bgr_hwc: Image) -> Detections:
        """See Detector."""
        height, width = check_image(frame_bgr_hwc)
        (result,) = self._model.predict(
            frame_bgr_hwc,
            conf=max(self._config.min_score, 1e-3),
            iou=self._config.max_overlap_iou,
            max_det=self._config.max_detections,
            **self._size(height, width),
            verbose=False,
        )
        boxes = result.boxes.cpu().numpy()
        found = Detections(
            np.asarray(boxes.xyxy, np.float32).reshape(-1, 4),
            np.clip(boxes.conf, 0, 1),
            boxes.cls.astype(np.int64),
            self._names,
        )
        return found.clipped(width, height)

    def _size(self, height: int, width: int) -> dict[str, list[int]]:
        """The input that suits the picture, if any size will do; else the model's own."""
        if not self._config.any_size:
            return {}
        ratio = min(1.0, (self._config.max_side or 4096) / max(height, width))
        return {"imgsz": [-(-max(1, round(side * ratio)) // 32) * 32 for side in (height, width)]}


def _import_yolo(model: str) -> Callable[..., Any]:
    """The package's model class, with what a camera must not do switched off.

    Its log goes to stderr (stdout is for results), it may not install packages, and it sends no usage
    statistics.
    """
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")
    try:
        with redirect_stdout(sys.stderr):  # its logger keeps the stdout that it finds when imported
            load: Callable[..., Any] = importlib.import_module("ultralytics").YOLO
    except ImportError as error:
        message = f"ultralytics:{model} needs the extra 'yolo' (AGPL-3.0): pip install 'veilcam[yolo]'"
        raise MissingDependency(message) from error
    for module in ("ultralytics.utils.events", "ultralytics.hub.utils"):  # it moved in 8.4
        with suppress(ImportError, AttributeError):
            importlib.import_module(module).events.enabled = False
    return load
