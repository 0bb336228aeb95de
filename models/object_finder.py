"""Finds people and vehicles with YOLOX-nano: what has to stay sharp (ADR 0021).

Ge et al., "YOLOX: Exceeding YOLO Series in 2021", arXiv:2107.08430; trained on COCO train2017. It opens
no gate: what it does not take for an object becomes coarse, and vehicles lose what could be read on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from models.card import WEIGHTS, read_card, read_weights
from models.session import Array, Session, open_session
from models.small_picture import fitted_size, small_rgb
from models.yolox_head import Grid, anchor_grid, boxes_of

CARD = "objects-v2.json"
FINDER_GRAPH = "objects-v2-finder.onnx"

SHORTEST_LOOK, LONGEST_LOOK = 416, 640
"""Pixels of the longer side that the network sees: 416 is what it was trained for."""
LOOK_SHARE = 1 / 3
"""In between, of the picture's: in 1080p people far away are too small at 416."""
MIN_SCORE = 0.01
"""Below it nothing is taken for an object: doubt costs bits, a miss costs the object."""
MAX_OBJECTS = 400
_LARGEST_LOG_SIDE = 8.0
_FARTHEST_PX = 1e6

Floats = npt.NDArray[np.float32]


class FoundObjects(NamedTuple):
    """Boxes [n, 4] in luma pixels, which may overlap, the surest first; scores [n] in 0..1.

    ``scores`` are of a person or any vehicle, ``plated`` of one that bears a number plate.
    """

    boxes_xyxy: Floats
    scores: Floats
    plated: Floats


NO_OBJECTS = FoundObjects(*(np.zeros(shape, np.float32) for shape in ((0, 4), 0, 0)))


def read_object_finder(folder: Path = WEIGHTS) -> bytes:
    """The graph from ``folder`` if its card lies there, else the one shipped with veilcam.

    Raises:
        AuthenticationFailed: the file is not the one on the card.
        FormatError: the card cannot be read.
    """
    folder = folder if (folder / CARD).exists() else WEIGHTS
    return read_weights(read_card(folder / CARD), FINDER_GRAPH, folder)


class ObjectFinder:
    """For pictures of one size. Not for two threads at once."""

    def __init__(self, graph: bytes, height: int, width: int, threads: int) -> None:
        """``height`` and ``width`` of the luma plane."""
        self._size_hw = fitted_size(height, width, look_side(height, width))
        self._grid = anchor_grid(self._size_hw[::-1])
        self._to_picture_xy = np.array([width / self._size_hw[1], height / self._size_hw[0]])
        self._session: Session = open_session(
            graph, (np.zeros((1, *self._size_hw, 3), np.uint8),), threads=threads
        )

    def __call__(self, luma_hw: Array, cb_hw: Array, cr_hw: Array) -> FoundObjects:
        """People and vehicles in the camera's planes; at most MAX_OBJECTS boxes."""
        return self._find(small_rgb(luma_hw, cb_hw, cr_hw, self._size_hw))

    def in_rgb(self, rgb_hwc: Array) -> FoundObjects:
        """The same for an RGB picture."""
        small = cv2.resize(rgb_hwc, self._size_hw[::-1], interpolation=cv2.INTER_AREA)
        return self._find(np.asarray(small, np.uint8))

    def _find(self, seen_hwc: Array) -> FoundObjects:
        (answer,) = self._session.run(seen_hwc[None])
        return decode(answer[0], self._grid, self._to_picture_xy)


def look_side(height: int, width: int) -> int:
    """How long the longer side of what the network sees is, for a picture of that size."""
    return round(min(max(LOOK_SHARE * max(height, width), SHORTEST_LOOK), LONGEST_LOOK))


def decode(answer: Floats, grid: Grid, to_picture_xy: npt.NDArray[np.float64]) -> FoundObjects:
    """Boxes from the network's answer; every anchor that is sure enough gives one.

    Args:
        answer: [n, 7]: way to the middle and logarithm of width and height in strides, probability of an
            object, of its likeliest class that is kept and of its likeliest that bears a plate.
        grid: the anchors of what the network saw.
        to_picture_xy: times this gives pixels of the picture.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        scores = answer[:, 4] * answer[:, 5]
        chosen = np.flatnonzero((scores > MIN_SCORE) & np.isfinite(answer).all(1))
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")][:MAX_OBJECTS]
    cells_xy, strides = grid
    values = answer[chosen].astype(np.float64)
    values[:, 2:4] = np.minimum(values[:, 2:4], _LARGEST_LOG_SIDE)
    boxes = boxes_of(values, cells_xy[chosen], strides[chosen]) * np.tile(to_picture_xy, 2)
    boxes = boxes.clip(-_FARTHEST_PX, _FARTHEST_PX)
    plated = (answer[chosen, 4] * answer[chosen, 6]).clip(0, 1)
    return FoundObjects(
        boxes.astype(np.float32),
        scores[chosen].clip(0, 1).astype(np.float32),
        np.minimum(plated, scores[chosen].clip(0, 1)).astype(np.float32),
    )
