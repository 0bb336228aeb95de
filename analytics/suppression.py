"""Keeping one box per object."""

from __future__ import annotations

import cv2
import numpy as np

from analytics.detections import Detections
from analytics.interface import DetectorConfig

MAX_CANDIDATES = 3000  # bounds the quadratic cost of suppression, far above what a picture holds


def suppress(candidates: Detections, config: DetectorConfig) -> Detections:
    """Class-aware non-maximum suppression; the strongest first, at most ``config.max_detections``."""
    strong = candidates[np.flatnonzero(candidates.scores >= config.min_score)]
    strong = strong[np.argsort(-strong.scores, kind="stable")[:MAX_CANDIDATES]]
    if not len(strong):
        return strong
    boxes_xywh = strong.boxes_xyxy.astype(np.float64)
    boxes_xywh[:, 2:] -= boxes_xywh[:, :2]
    kept = cv2.dnn.NMSBoxesBatched(
        boxes_xywh.tolist(),
        strong.scores.tolist(),
        strong.class_ids.tolist(),
        0.0,
        config.max_overlap_iou,
    )
    return strong[np.sort(np.asarray(kept, np.int64).reshape(-1))[: config.max_detections]]
