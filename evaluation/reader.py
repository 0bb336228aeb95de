"""Reading text in given crops, and how right a reading is."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from analytics.interface import Image
from base.errors import MissingDependency
from evaluation.pictures import resized

LINE_PX = 48  # the height that PP-OCR's recogniser works at


class Reader(Protocol):
    """Reads one line of text per crop."""

    name: str

    def read(self, crops: Sequence[Image]) -> list[str]:
        """The text of each crop; empty where nothing is read."""


@dataclass(frozen=True, slots=True)
class FoundText:
    """A line that the reader found by itself: corners of its upright box, its text and how sure it is."""

    box_xyxy: tuple[int, int, int, int]
    text: str
    score: float


class RapidReader:
    """PP-OCRv4 by RapidOCR, recognition only.

    Raises:
        MissingDependency: rapidocr is not installed.
    """

    name = "RapidOCR (PP-OCRv4)"

    def __init__(self) -> None:
        if importlib.util.find_spec("rapidocr_onnxruntime") is None:
            raise MissingDependency(
                "reading text needs the extra 'evaluate': pip install 'veilcam[evaluate]'"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from rapidocr_onnxruntime import RapidOCR  # noqa: PLC0415  (an extra)

        self._engine: Any = RapidOCR(intra_op_num_threads=1)

    def read(self, crops: Sequence[Image]) -> list[str]:
        """See Reader."""
        return [self._line(crop) for crop in crops]

    def find(self, picture: Image) -> list[FoundText]:
        """Lines that are found and read in a whole picture."""
        found, _ = self._engine(picture)
        lines = []
        for corners, text, score in found or []:
            points = np.asarray(corners)
            left, top = (int(value) for value in points.min(0))
            right, bottom = (int(value) for value in points.max(0))
            lines.append(FoundText((max(left, 0), max(top, 0), right, bottom), str(text), float(score)))
        return lines

    def _line(self, crop: Image) -> str:
        height = max(LINE_PX, crop.shape[0])
        line = resized(crop, max(8, round(crop.shape[1] * height / crop.shape[0])), height)
        found, _ = self._engine(line, use_det=False, use_cls=False, use_rec=True)
        return str(found[0][0]) if found else ""


def plain(text: str) -> str:
    """Capital letters and digits only: spaces, dashes and flags are not part of a plate's text."""
    return "".join(letter for letter in text.upper() if letter.isascii() and letter.isalnum())


def characters_right(read: str, wanted: str) -> float:
    """Share of the wanted characters read right: 1 - edits / length, at least 0 (Levenshtein 1966)."""
    if not wanted:
        return 1.0 if not read else 0.0
    return max(0.0, 1 - edits(read, wanted) / len(wanted))


def edits(first: str, second: str) -> int:
    """Fewest insertions, deletions and replacements that make one of the other."""
    costs = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        diagonal, costs[0] = costs[0], row
        for column, other in enumerate(second, 1):
            best = min(costs[column] + 1, costs[column - 1] + 1, diagonal + (letter != other))
            diagonal, costs[column] = costs[column], best
    return costs[-1]


def guessed_right(read: Sequence[str], wanted: Sequence[str]) -> float:
    """Chance: the mean over readings that are held against other plates' texts instead of their own."""
    scores = [
        characters_right(one, other)
        for place, one in enumerate(read)
        for at, other in enumerate(wanted)
        if at != place
    ]
    return float(np.mean(scores)) if scores else float("nan")
