"""Choosing a detector by name."""

from __future__ import annotations

from pathlib import Path

from analytics.interface import Detector, DetectorConfig, Progress
from analytics.weights import WEIGHTS, find_or_fetch
from base.errors import UsageError

__all__ = ["KNOWN_SPECS", "Detector", "DetectorConfig", "load_detector"]

KNOWN_SPECS = "yolox, yolox-tiny, yolox-s, yolox:PATH, ultralytics:NAME, hog"


def load_detector(
    spec: str = "yolox", config: DetectorConfig | None = None, *, progress: Progress | None = None
) -> Detector:
    """The detector that ``spec`` names.

    ``yolox`` or ``yolox-nano`` (also ``yolox-tiny``, ``yolox-s``) is Megvii's YOLOX with its official
    weights, fetched once on first use; ``yolox:PATH`` an ONNX file of the same head; ``ultralytics:NAME`` any
    detection model of the ultralytics package (extra ``yolo``, AGPL-3.0); ``hog`` a people detector that
    needs no download. With ``config.any_size`` what a picture costs is proportional to its pixels.

    Args:
        spec: one of the above.
        config: thresholds and threads; defaults if None.
        progress: called with (bytes so far, bytes in all) while weights are fetched.

    Raises:
        UsageError: unknown spec.
        MissingDependency: the extra that the detector needs is not installed.
        PeerError: the weights are not here and could not be fetched.
        FormatError: the model file is not one that this detector can run.
    """
    config = config or DetectorConfig()
    kind, _, argument = spec.partition(":")
    if kind == "yolox" and argument:
        return _yolox(Path(argument).expanduser(), config)
    if spec in WEIGHTS or spec == "yolox-nano":
        return _yolox(
            find_or_fetch(WEIGHTS["yolox" if spec == "yolox-nano" else spec], progress=progress), config
        )
    if kind == "ultralytics" and argument:
        from analytics.ultralytics_model import UltralyticsDetector  # noqa: PLC0415

        return UltralyticsDetector(argument, config)
    if spec == "hog":
        from analytics.hog import HogDetector  # noqa: PLC0415

        return HogDetector(config)
    message = f"detector: expected one of {KNOWN_SPECS}; got {spec!r}"
    raise UsageError(message)


def _yolox(path: Path, config: DetectorConfig) -> Detector:
    if config.any_size:
        from analytics.yolox_tiles import TileYoloxDetector  # noqa: PLC0415  # onnxruntime only where it is used

        return TileYoloxDetector(path, config)
    from analytics.yolox import YoloxDetector  # noqa: PLC0415

    return YoloxDetector(path, config)
