"""``veilcam train face``: the mean of many faces, which everybody gets drawn, and drawing it in training."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import numpy.typing as npt

from base.errors import UsageError
from models.drawn_face import FACE_PICTURE, FINDER_GRAPH, MIDDLE, FaceDrawer, read_drawn_face, tone_for
from models.face_finder import FaceFinder
from models.places import ALIGNED_SIDE, hidden_faces
from models.train.pictures import Image
from models.train.samples import load_faces

if TYPE_CHECKING:
    from torch import Tensor

LEAST_FACES = 50
"""A mean over fewer would show them."""
_SMOOTH_PX = 14.0  # wider than a face's features: shading comes from the picture it is drawn in
_NAME = "drawn-face-v1"


def mean_face(faces: Sequence[Image]) -> bytes:
    """Grey PNG, 112x112: detail of the mean of aligned RGB crops and their mirror pictures, around MIDDLE.

    Raises:
        UsageError: fewer than LEAST_FACES faces.
    """
    if len(faces) < LEAST_FACES:
        raise UsageError(f"mean face: expected at least {LEAST_FACES} faces, got {len(faces)}")
    total = np.zeros((ALIGNED_SIDE, ALIGNED_SIDE), np.float64)
    for face in faces:
        grey = cv2.cvtColor(cv2.resize(face, (ALIGNED_SIDE, ALIGNED_SIDE)), cv2.COLOR_RGB2GRAY)
        total += grey.astype(np.float64) + grey[:, ::-1]
    mean = total / (2 * len(faces))
    detail = (mean - cv2.GaussianBlur(mean, (0, 0), _SMOOTH_PX)) * 219 / 255  # limited range
    good, coded = cv2.imencode(".png", np.clip(np.round(detail + MIDDLE), 0, 255).astype(np.uint8))
    if not good:
        raise UsageError("mean face: could not be coded as PNG")
    return bytes(coded.tobytes())


class FacesInTraining:
    """Draws the shipped face into what a generator drew, as the camera does, where its gates hid one."""

    def __init__(self, crop_size: int) -> None:
        """``crop_size``: side of the square crops in pixels."""
        parts = read_drawn_face()
        self._finder = FaceFinder(parts.finder, crop_size, crop_size, threads=1)
        self._drawer = FaceDrawer(parts.picture)

    def drawn(
        self, drawn: tuple[Tensor, Tensor], gates: Tensor, clear: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The planes with faces; without gradients.

        Args:
            drawn: by the generator: luma [B, 1, H, W] and chroma [B, 2, H/2, W/2], in 0..1.
            gates: its gates, [B, bands, H/8, W/8].
            clear: what it was given, likewise.
        """
        import torch  # noqa: PLC0415  (the mean face needs none)

        shown, seen = [[_bytes_of(planes) for planes in pair] for pair in (drawn, clear)]
        for index, finest in enumerate(gates[:, 0].detach().numpy()):
            luma, (cb, cr) = seen[0][index, 0], seen[1][index]
            faces = self._finder(luma, cb, cr)
            planes = (shown[0][index, 0], *shown[1][index])
            self._drawer.draw(planes, hidden_faces(faces, finest), tone_for(luma, faces))
        luma, chroma = (
            # Where no face is nothing is rounded.
            torch.where(torch.from_numpy(new != _bytes_of(old)), torch.from_numpy(new).float() / 255, old)
            for new, old in zip(shown, drawn, strict=True)
        )
        return luma.detach(), chroma.detach()


def _bytes_of(planes: Tensor) -> npt.NDArray[np.uint8]:
    bytes_: npt.NDArray[np.uint8] = (planes.detach().clamp(0, 1) * 255).round().byte().contiguous().numpy()
    return bytes_


def main(arguments: Sequence[str] | None = None) -> int:
    """Average, write picture, finder and card; 0 when they are written."""
    from models.train.carded import write_carded  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="veilcam train face", description=__doc__)
    parser.add_argument("--faces", type=Path, required=True, help="aligned crops, one folder per person")
    parser.add_argument("--identities", type=int, default=120, help="the first N people, by name")
    parser.add_argument("--finder", type=Path, help="BlazeFace as ONNX (NHWC, sides free); the shipped one")
    parser.add_argument("--out", type=Path, required=True, help="folder for picture, finder and card")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parsed = parser.parse_args(arguments)
    faces = load_faces(parsed.faces, range(parsed.identities))
    finder = parsed.finder.read_bytes() if parsed.finder else read_drawn_face().finder
    files = {FACE_PICTURE: mean_face(faces), FINDER_GRAPH: finder}
    described = {
        "licence": "picture: Apache-2.0; finder: Apache-2.0, copyright Google (MediaPipe); see NOTICE",
        "training": {"faces": len(faces), "identities": parsed.identities},
        "metrics": {},
    }
    write_carded(parsed.out, _NAME, {"size_multiple": 1}, files, described)
    result = {"out": str(parsed.out), "faces": len(faces)}
    sys.stdout.write(
        (json.dumps(result) if parsed.json else f"mean of {len(faces)} faces: {parsed.out}") + "\n"
    )
    return 0
