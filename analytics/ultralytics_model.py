"""The one place that touches the ultralytics package (AGPL-3.0, extra ``yolo``)."""

from __future__ import annotations

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
        try:
            from ultralytics import YOLO  # noqa: PLC0415  # AGPL and heavy: only on request
        except ImportError as error:
            message = f"ultralytics:{model} needs the extra 'yolo' (AGPL-3.0): pip install 'veilcam[yolo]'"
            raise MissingDependency(message) from error
        self._config = config or DetectorConfig()
        self._model_name = model
        try:
            self._model = YOLO(model, task="detect")
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
