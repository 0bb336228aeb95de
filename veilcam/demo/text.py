"""Text in pictures: OpenCV 5 draws with an outline font, older releases with strokes."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Colour = tuple[int, int, int]

_STROKES = cv2.FONT_HERSHEY_SIMPLEX
_STROKE_UNIT = 22.0  # pixels of capital height, roughly, at scale 1
_MAX_WEIGHT = 700
_PLAIN_WEIGHT = 400


def put_text(
    canvas: Image, text: str, xy: tuple[int, int], colour: Colour, *, size: int, bold: bool = False
) -> None:
    """Write ``text`` (ASCII) into ``canvas`` with its baseline's left end at ``xy``; ``size`` in pixels."""
    if hasattr(cv2, "FontFace"):
        weight = _MAX_WEIGHT if bold else _PLAIN_WEIGHT
        cv2.putText(canvas, text, xy, colour, cv2.FontFace("sans"), size, weight)
        return
    thickness = 2 if bold else 1
    cv2.putText(canvas, text, xy, _STROKES, size / _STROKE_UNIT * 0.8, colour, thickness, cv2.LINE_AA)
