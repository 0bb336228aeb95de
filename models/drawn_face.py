"""One face for everybody: the mean of many, drawn where a face was hidden.

Hidden faces cost detectors and pose networks dearly, since they look for eyes and noses. A mean over all
people carries nobody's identity (k-Same with k = all, Newton, Sweeney and Malin 2005); of the person under
it only a similarity is told: place, size and tilt. Under the drawn face the luma that the gates left is
replaced by the plane that fits it best, so of it no more than its brightness and shading remain.
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
from models.places import ALIGNED_SIDE, FacePlace
from models.session import Array

CARD = "drawn-face-v1.json"
FINDER_GRAPH = "drawn-face-v1-finder.onnx"
FACE_PICTURE = "drawn-face-v1.png"

MIDDLE = 128
"""Grey level in the file that changes nothing."""
STRENGTH = 1.0
"""Contrast of the drawn face, times that of the mean face."""
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


class FaceDrawer:
    """Draws the mean face into luma planes."""

    def __init__(self, png: bytes) -> None:
        """``png``: grey, 112x112, the mean face's detail around MIDDLE.

        Raises:
            Malformed: it is no such picture.
        """
        picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED) if png else None
        if picture is None or picture.shape != (ALIGNED_SIDE, ALIGNED_SIDE) or picture.dtype != np.uint8:
            raise Malformed(f"drawn face: expected a grey PNG of {ALIGNED_SIDE}x{ALIGNED_SIDE}")
        self._mask = face_mask()
        self._detail = (np.asarray(picture, np.float32) - MIDDLE) * STRENGTH * self._mask

    def draw(self, luma: Array, places: Sequence[FacePlace]) -> None:
        """Draw into ``luma`` [H, W], the smallest face last."""
        for place in sorted(places, key=lambda one: -one.side):
            self._draw(luma, place)

    def _draw(self, luma: Array, place: FacePlace) -> None:
        reach = 0.75 * place.side
        top, bottom = max(0, int(place.y - reach)), min(luma.shape[0], int(place.y + reach) + 1)
        left, right = max(0, int(place.x - reach)), min(luma.shape[1], int(place.x + reach) + 1)
        if bottom - top < 2 or right - left < 2:
            return
        matrix = place.matrix()
        matrix[:, 2] -= left, top
        size_wh = (right - left, bottom - top)
        mask, detail = (
            np.asarray(cv2.warpAffine(crop, matrix, size_wh), np.float32)
            for crop in (self._mask, self._detail)
        )
        window = luma[top:bottom, left:right]
        base = window.astype(np.float32)
        drawn = base + mask * (_plane_through(base, mask) - base) + detail
        window[:] = np.clip(np.round(drawn), 0, 255).astype(np.uint8)


def _plane_through(values: Floats, weights: Floats) -> Floats:
    """The plane a + b y + c x that is nearest to ``values`` [h, w] in weighted squares."""
    total = float(weights.sum())
    if total < 1:
        return values
    y = np.arange(values.shape[0], dtype=np.float32)[:, None] / values.shape[0] - 0.5
    x = np.arange(values.shape[1], dtype=np.float32)[None] / values.shape[1] - 0.5
    basis = [np.ones_like(values), np.broadcast_to(y, values.shape), np.broadcast_to(x, values.shape)]
    weighted = [weights * one for one in basis]
    normal = np.array([[float((a * b).sum()) for b in basis] for a in weighted])
    right = np.array([float((a * values).sum()) for a in weighted])
    normal += np.diag([0, 1e-3, 1e-3]) * total  # a sliver of a face has no slope
    mean, down, across = np.linalg.solve(normal, right).tolist()
    return np.asarray(mean + down * y + across * x, np.float32)
