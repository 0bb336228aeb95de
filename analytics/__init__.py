"""Detection on protected video. Sees protected pixels only: no keys, no sealed layer, no cryptography."""

from __future__ import annotations

from analytics.detections import Detections
from analytics.detector import Detector, DetectorConfig, load_detector

__all__ = ["Detections", "Detector", "DetectorConfig", "load_detector"]
