"""One face for everybody: the mean of many, drawn where a face was hidden.

Hidden faces cost detectors and pose networks dearly, since they look for eyes and noses. A mean over all
people carries nobody's identity (k-Same with k = all, Newton, Sweeney and Malin 2005). It covers what the
gates left: its colour is always the same and its brightness follows the picture beside the faces, so that
of the person under it only a similarity is told: place, size and tilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from base.errors import Malformed
from models.card import WEIGHTS, read_card, read_weights
from models.places import ALIGNED_SIDE, FACE_REACH, FacePlace
from models.session import Array

CARD = "drawn-face-v1.json"
FINDER_GRAPH = "drawn-face-v1-finder.onnx"
FACE_PICTURE = "drawn-face-v1.png"

MIDDLE = 128
"""Grey level in the file that changes nothing."""
SKIN, BLACK = 107.0, 16
"""Luma of the face over black in a picture of middle brightness; limited range."""
SKIN_CB_CR = (113, 146)
_CENTRE_XY, _AXES_XY, _EDGE = (56, 62), (44, 52), 0.15

Floats = npt.NDArray[np.float32]


class DrawnFace(NamedTuple):
    """What is needed to draw it."""

    finder: bytes  # ONNX, for FaceFinder
    picture: bytes  # PNG, for FaceDrawer


def read_drawn_face(folder: Path = WEIGHTS) -> DrawnFace:
    """From ``folder`` if its card lies there, else those shipped with veilcam.

    Raises:
        AuthenticationFailed: a file is not the one on the card.
        FormatError: the card cannot be read.
    """
    folder = folder if (folder / CARD).exists() else WEIGHTS
    card = read_card(folder / CARD)
    return DrawnFace(read_weights(card, FINDER_GRAPH, folder), read_weights(card, FACE_PICTURE, folder))


def face_mask() -> Floats:
    """Where the face is drawn in an aligned crop: an ellipse with soft edge, [112, 112] in 0..1."""
    y, x = np.mgrid[:ALIGNED_SIDE, :ALIGNED_SIDE].astype(np.float32)
    radius = np.hypot((x - _CENTRE_XY[0]) / _AXES_XY[0], (y - _CENTRE_XY[1]) / _AXES_XY[1])
    return np.asarray(np.clip((1.05 - radius) / _EDGE, 0, 1), np.float32)


def tone_for(luma_hw: Array, faces: Sequence[FacePlace] = ()) -> float:
    """Luma of the drawn face's skin in a clear picture, from a third of a lit one's on.

    By the mean of the picture beside the ``faces``: how dark the skin is under a face that fills much of
    the picture must not show. Where nothing lies beside them a picture of middle brightness is taken.
    """
    beside = np.full(luma_hw.shape, 1, np.uint8)
    for face in faces:
        top, bottom, left, right = face.window(FACE_REACH, *luma_hw.shape)
        beside[top:bottom, left:right] = 0
    mean = cv2.mean(luma_hw, beside)[0] if beside.any() else MIDDLE
    light = (mean - BLACK) / (MIDDLE - BLACK)
    return BLACK + SKIN * max(0.35 + 0.65 * light, 0.2)


class FaceDrawer:
    """Draws the mean face into planes."""

    def __init__(self, png: bytes) -> None:
        """``png``: grey, 112x112, the mean face's detail around MIDDLE.

        Raises:
            Malformed: it is no such picture.
        """
        picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED) if png else None
        if picture is None or picture.shape != (ALIGNED_SIDE, ALIGNED_SIDE) or picture.dtype != np.uint8:
            raise Malformed(f"drawn face: expected a grey PNG of {ALIGNED_SIDE}x{ALIGNED_SIDE}")
        self._mask = face_mask()
        self._detail = np.asarray(picture, np.float32) - MIDDLE

    def draw(self, planes: Sequence[Array], places: Sequence[FacePlace], tone: float) -> None:
        """Draw into luma [H, W], cb and cr [H/2, W/2], the smallest last; ``tone`` as of ``tone_for``."""
        for place in sorted(places, key=lambda one: -one.side):
            half = FacePlace(place.x / 2, place.y / 2, place.side / 2, place.tilt)
            self._cover(planes[0], place, tone, self._detail)
            for plane, colour in zip(planes[1:], SKIN_CB_CR, strict=True):
                self._cover(plane, half, colour)

    def _cover(self, plane: Array, place: FacePlace, level: float, detail: Floats | None = None) -> None:
        top, bottom, left, right = place.window(0.75, *plane.shape)
        if bottom <= top or right <= left:
            return
        matrix = place.matrix()
        matrix[:, 2] -= left, top
        size_wh = (right - left, bottom - top)
        window = plane[top:bottom, left:right]
        change = level - window.astype(np.float32)
        if detail is not None:
            change += cv2.warpAffine(detail, matrix, size_wh, borderMode=cv2.BORDER_REPLICATE)
        mask = np.asarray(cv2.warpAffine(self._mask, matrix, size_wh), np.float32)
        window[:] = np.clip(np.round(window + mask * change), 0, 255).astype(np.uint8)
