"""Keeping one box per object."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from analytics.detections import Detections
from analytics.interface import DetectorConfig

MAX_CANDIDATES = 3000  # bounds the quadratic cost of suppression, far above what a picture holds


def suppress(candidates: Detections, config: DetectorConfig) -> Detections:
    """Class-aware non-maximum suppression; the strongest first, at most ``config.max_detections``."""
    strong = candidates[np.flatnonzero(candidates.scores >= config.min_score)]
    strong = strong[np.argsort(-strong.scores, kind="stable")[:MAX_CANDIDATES]]
    if not len(strong):
        return strong
    return strong[kept_rows(strong, strong.scores, config.max_overlap_iou)[: config.max_detections]]


def kept_rows(
    candidates: Detections, ranks: npt.NDArray[np.float32], max_overlap_iou: float
) -> npt.NDArray[np.int64]:
    """The rows that greedy suppression within each class leaves, rising.

    Args:
        candidates: at least one; at most MAX_CANDIDATES, as the cost is quadratic.
        ranks: [n] above 0; higher ones suppress lower ones.
        max_overlap_iou: of what overlaps more, one is left.
    """
    boxes_xywh = candidates.boxes_xyxy.astype(np.float64)
    boxes_xywh[:, 2:] -= boxes_xywh[:, :2]
    kept = cv2.dnn.NMSBoxesBatched(
        boxes_xywh.tolist(), ranks.tolist(), candidates.class_ids.tolist(), 0.0, max_overlap_iou
    )
    return np.sort(np.asarray(kept, np.int64).reshape(-1))
