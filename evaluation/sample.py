"""Data for a quick run without any: a clip, and plates drawn into its pictures."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from analytics.interface import Image
from base.files import atomic_file, atomic_write
from evaluation.camera import read_clip
from evaluation.pictures import resized, to_bgr
from evaluation.plates import MARGIN
from evaluation.reader import plain

LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ0123456789"
LENGTH = 6
_CELL_WH = (24, 36)
_PLATES = 8


def make_sample(clip: Path, folder: Path) -> Path:
    """A data folder with this clip and drawn plates; honest about nothing but that the parts work.

    Raises:
        MediaError: the clip cannot be decoded.
    """
    clips, plates = folder / "clips", folder / "plates" / "drawn"
    for one in (clips, plates):
        one.mkdir(parents=True, exist_ok=True)
    with atomic_file(clips / "sample.mp4") as file, clip.open("rb") as source:
        shutil.copyfileobj(source, file)
    frames, _ = read_clip(clip, count=_PLATES)
    rng = np.random.default_rng(5)
    for number, frame in enumerate(frames):
        text = "".join(rng.choice(list(LETTERS), LENGTH))
        picture = to_bgr(frame)
        plate = draw_plate(text)
        left, top = 40 + 30 * number, 60 + 20 * number
        picture[top : top + plate.shape[0], left : left + plate.shape[1]] = plate
        _, coded = cv2.imencode(".png", picture)
        name = f"drawn{number}.png"
        atomic_write(plates / name, coded.tobytes())
        row = f"{name}\t{left}\t{top}\t{plate.shape[1]}\t{plate.shape[0]}\t{text}\n"
        atomic_write(plates / f"drawn{number}.txt", row.encode())
    return folder


def draw_plate(text: str) -> Image:
    """Black letters at an even pitch on white."""
    return np.concatenate([_glyph(letter) for letter in text], 1)


def _glyph(letter: str) -> Image:
    width, height = _CELL_WH
    cell = np.full((height, width, 3), 255, np.uint8)
    (wide, high), _ = cv2.getTextSize(letter, cv2.FONT_HERSHEY_SIMPLEX, 0.9, 2)
    place = ((width - wide) // 2, (height + high) // 2)
    cv2.putText(cell, letter, place, cv2.FONT_HERSHEY_SIMPLEX, 0.9, (0, 0, 0), 2, cv2.LINE_AA)
    return cell


class GlyphReader:
    """Reads plates that :func:`draw_plate` drew: it knows font, pitch and length, and correlates."""

    name = "correlation with the known letters"

    def __init__(self) -> None:
        self._known = np.stack([_normal(_glyph(letter)) for letter in LETTERS])

    def read(self, crops: Sequence[Image]) -> list[str]:
        """See Reader; crops have the plates part's margin around them."""
        return [self._line(crop) for crop in crops]

    def _line(self, crop: Image) -> str:
        height, width = crop.shape[:2]
        down, across = (round(size * MARGIN / (1 + 2 * MARGIN)) for size in (height, width))
        plate = resized(
            crop[down : height - down, across : width - across], _CELL_WH[0] * LENGTH, _CELL_WH[1]
        )
        cells = [plate[:, at : at + _CELL_WH[0]] for at in range(0, plate.shape[1], _CELL_WH[0])]
        scores = np.stack([_normal(cell) for cell in cells]) @ self._known.T
        return plain("".join(LETTERS[index] for index in scores.argmax(1)))


def _normal(cell: Image) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    grey = cell.astype(np.float64).mean(2).ravel()
    grey -= grey.mean()
    return np.asarray(grey / max(float(np.linalg.norm(grey)), 1e-9), np.float64)
