"""Off-the-shelf face recognition, with a store of what was described already."""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from analytics.interface import Image
from base.errors import MissingDependency
from base.files import atomic_file
from evaluation.pictures import resized

Vectors = npt.NDArray[np.float32]
ALIGNED_PX = 112


class Recogniser(Protocol):
    """Aligned faces to vectors; the nearer two are, the likelier it is one person."""

    name: str

    def describe(self, aligned_bgr: Sequence[Image]) -> Vectors:
        """One row per face crop (square, any size, ArcFace alignment)."""


class DlibRecogniser:
    """dlib's ResNet: 128 numbers per face, the same person within about 0.6 (King 2017).

    Raises:
        MissingDependency: dlib or its models are not installed.
    """

    name = "dlib ResNet"
    # ArcFace-aligned 112 px to dlib's 150 px chip: eye centres on eye centres.
    TO_CHIP = np.array([[1.494, 0.0, -9.5], [0.0, 1.494, -30.0]], np.float32)

    def __init__(self, store: Path | None = None) -> None:
        if not all(importlib.util.find_spec(name) for name in ("dlib", "face_recognition_models")):
            raise MissingDependency(
                "face recognition needs the extra 'evaluate': pip install 'veilcam[evaluate]'"
            )
        import dlib  # noqa: PLC0415  (an extra)

        with warnings.catch_warnings():  # it imports pkg_resources, which warns of its own end
            warnings.simplefilter("ignore")
            import face_recognition_models  # noqa: PLC0415
        self._net = dlib.face_recognition_model_v1(face_recognition_models.face_recognition_model_location())
        self._store = store
        self._known: dict[str, Vectors] = _stored(store)
        self._new = 0

    def describe(self, aligned_bgr: Sequence[Image]) -> Vectors:
        """See Recogniser; 0.15 s per face that was not described before."""
        chips = [self._chip(face) for face in aligned_bgr]
        names = [hashlib.sha256(chip.tobytes()).hexdigest() for chip in chips]
        for name, chip in zip(names, chips, strict=True):
            if name not in self._known:
                self._known[name] = np.array(self._net.compute_face_descriptor(chip), np.float32)
                self._new += 1
        if self._new >= 200:
            self.save()
        return np.stack([self._known[name] for name in names]) if names else np.zeros((0, 128), np.float32)

    def save(self) -> None:
        """Keep what was described for the next run."""
        if self._store is None or not self._new:
            return
        names = np.array(list(self._known), dtype="S64")
        vectors = np.stack(list(self._known.values()))
        with atomic_file(self._store) as file:
            np.savez(file, names=names, vectors=vectors)
        self._new = 0

    def _chip(self, face: Image) -> Image:
        upright = resized(face, ALIGNED_PX, ALIGNED_PX)
        chip = cv2.warpAffine(upright, self.TO_CHIP, (150, 150), borderMode=cv2.BORDER_REPLICATE)
        return np.ascontiguousarray(chip[:, :, ::-1], np.uint8)


def _stored(path: Path | None) -> dict[str, Vectors]:
    if path is None or not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as arrays:
        return {
            bytes(name).decode(): vector
            for name, vector in zip(arrays["names"], arrays["vectors"], strict=True)
        }


def distances(probes: Vectors, gallery: Vectors) -> npt.NDArray[np.float64]:
    """Euclidean distance of every probe to every gallery entry: [probes, gallery]."""
    squares = (probes**2).sum(1)[:, None] + (gallery**2).sum(1)[None] - 2 * probes @ gallery.T
    return np.asarray(np.sqrt(np.maximum(squares, 0)), np.float64)
