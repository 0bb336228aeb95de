"""People by HOG and a linear SVM: old and modest, but it needs no download and no extra."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from analytics.detections import Detections
from analytics.hog_features import BLOCK_VALUES, CELL, Floats, block_histograms
from analytics.interface import DetectorConfig, Image, check_image
from analytics.suppression import suppress

WINDOW_WH = (64, 128)  # pixels; a person in it is about 96 tall
_BLOCKS_WH = (WINDOW_WH[0] // CELL - 1, WINDOW_WH[1] // CELL - 1)
_PADDING = 16  # pixels around the picture, so that people at its edge fit a window
_SCALE_STEP = 1.1
_MAX_SIDE = 1280  # pixels; larger pictures are searched at this size
_INSET_WH = (0.22, 0.11)  # share of the window between its edge and the person
_SLOPE, _OFFSET = 2.0, -0.8473  # score = logistic(slope * margin + offset); 0.3 at margin 0
_NAMES = ("person",)
_SVM_FILE = Path(__file__).with_name("hog_people.npy")


class HogDetector:
    """Upright people of about 100 pixels or more, with OpenCV's default people detector (INRIA data).

    ``hog_people.npy`` holds the 3780 weights and the bias that cv2.HOGDescriptor_getDefaultPeopleDetector()
    returns in OpenCV 4 (Apache-2.0). Scores are a logistic function of the SVM's margin (0.3 at
    OpenCV's usual threshold, margin 0): an order, not a probability.
    """

    def __init__(self, config: DetectorConfig | None = None) -> None:
        self._config = config or DetectorConfig()
        numbers = np.load(_SVM_FILE, allow_pickle=False)
        # [15, 7, 36]: OpenCV stores a window's blocks column by column
        self._weights = numbers[:-1].reshape(*_BLOCKS_WH, BLOCK_VALUES).transpose(1, 0, 2)
        self._bias = float(numbers[-1])

    @property
    def name(self) -> str:
        """``hog``."""
        return "hog"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Only ``person``."""
        return _NAMES

    def detect(self, frame_bgr_hwc: Image) -> Detections:
        """See Detector."""
        height, width = check_image(frame_bgr_hwc)
        parts = [self._search(level, width, height) for level in _pyramid(frame_bgr_hwc)]
        if not parts:
            return Detections.empty(_NAMES)
        return suppress(Detections.concatenate(parts).clipped(width, height), self._config)

    def _search(self, level: Image, width: int, height: int) -> Detections:
        margins = self.margins(level)
        rows, columns = np.nonzero(margins >= _margin_of(self._config.min_score))
        inner_wh = (level.shape[1] - 2 * _PADDING, level.shape[0] - 2 * _PADDING)
        scale_xy = np.array([width / inner_wh[0], height / inner_wh[1]])
        corner = (np.stack([columns, rows], 1) * CELL - _PADDING) * scale_xy
        size = np.array(WINDOW_WH) * scale_xy
        inset = size * _INSET_WH
        boxes = np.concatenate([corner + inset, corner + size - inset], 1)
        scores = 1 / (1 + np.exp(-(_SLOPE * margins[rows, columns] + _OFFSET)))
        return Detections(
            boxes.astype(np.float32), scores.astype(np.float32), np.zeros(len(rows), np.int64), _NAMES
        )

    def margins(self, image_hwc: Image) -> Floats:
        """SVM margin of the window at every 8th pixel of an image: [rows, columns], both >= 0."""
        blocks = block_histograms(image_hwc)
        rows = max(blocks.shape[0] - _BLOCKS_WH[1] + 1, 0)
        columns = max(blocks.shape[1] - _BLOCKS_WH[0] + 1, 0)
        # every block against every place it can have in a window, then the sum along each window
        products = blocks @ self._weights.reshape(-1, BLOCK_VALUES).T
        margins = np.full((rows, columns), self._bias, np.float32)
        for place in range(products.shape[2]):
            y, x = divmod(place, _BLOCKS_WH[0])
            margins += products[y : y + rows, x : x + columns, place]
        return margins


def _margin_of(score: float) -> float:
    clipped = min(max(score, 1e-6), 1 - 1e-6)
    return float((np.log(clipped / (1 - clipped)) - _OFFSET) / _SLOPE)


def _pyramid(image_hwc: Image) -> Iterator[Image]:
    """The picture, padded, at ever smaller sizes, while a window fits."""
    height, width = image_hwc.shape[:2]
    shrink = max(1.0, max(height, width) / _MAX_SIDE)
    while True:
        size_wh = (round(width / shrink), round(height / shrink))
        if size_wh[0] + 2 * _PADDING < WINDOW_WH[0] or size_wh[1] + 2 * _PADDING < WINDOW_WH[1]:
            return
        level = np.asarray(cv2.resize(image_hwc, size_wh, interpolation=cv2.INTER_LINEAR), np.uint8)
        yield np.pad(level, ((_PADDING, _PADDING), (_PADDING, _PADDING), (0, 0)), mode="reflect")
        shrink *= _SCALE_STEP
