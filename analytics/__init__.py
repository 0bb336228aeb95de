"""Receiving protected video and detecting in it. Sees protected pixels only: no keys, no cryptography."""

from __future__ import annotations

from analytics.detections import Detections
from analytics.detector import Detector, DetectorConfig, load_detector
from analytics.encoded_unit import EncodedUnit
from analytics.subscribe import SubscribeOptions, Subscription, subscribe

__all__ = [
    "Detections",
    "Detector",
    "DetectorConfig",
    "EncodedUnit",
    "SubscribeOptions",
    "Subscription",
    "load_detector",
    "subscribe",
]
