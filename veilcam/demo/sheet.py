"""The picture sheet: what each party sees at a few moments, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from veilcam.demo.text import put_text

Image = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]

CELL_WIDTH = 464
_GAP = 8
_MARGIN = 24
_TITLE_HEIGHT = 64
_HEAD_HEIGHT = 50
_LINE_HEIGHT = 25
_ZOOM_WIDTH_SHARE = 0.24  # of the picture's width; people on the sample become about half a cell high
_GROUND = (24, 22, 20)
_INK = (240, 240, 240)
_FAINT = (170, 165, 160)
_ACCENT = (120, 200, 90)
_BOX = (0, 200, 255)


@dataclass(frozen=True, slots=True)
class Column:
    """One party: a heading and what it may see."""

    title: str
    note: str


@dataclass(frozen=True, slots=True)
class Moment:
    """One row: one picture per column, BGR uint8 [H, W, 3] of one size, and where to look closer.

    ``boxes_xyxy`` are drawn into the last column; ``focus_xyxy`` is the box the second strip zooms on.
    """

    time_s: float
    pictures: tuple[Image, ...]
    boxes_xyxy: tuple[Box, ...]
    focus_xyxy: Box


def draw_sheet(
    title: str, columns: Sequence[Column], moments: Sequence[Moment], facts: Sequence[str]
) -> Image:
    """Lay out the sheet: headings, two strips per moment (whole and close), facts at the foot. BGR."""
    width = 2 * _MARGIN + len(columns) * CELL_WIDTH + (len(columns) - 1) * _GAP
    strips = [_heading(width, title, columns)]
    for moment in moments:
        strips.append(_strip(width, moment, close=False))
        strips.append(_strip(width, moment, close=True))
    strips.append(_footer(width, facts))
    return np.vstack(strips)


def _heading(width: int, title: str, columns: Sequence[Column]) -> Image:
    canvas = _ground(_TITLE_HEIGHT + _HEAD_HEIGHT, width)
    put_text(canvas, title, (_MARGIN, 42), _INK, size=28, bold=True)
    for index, column in enumerate(columns):
        left = _left_of(index)
        put_text(canvas, column.title, (left, _TITLE_HEIGHT + 16), _INK, size=20, bold=True)
        put_text(canvas, column.note, (left, _TITLE_HEIGHT + 38), _FAINT, size=16)
    return canvas


def _strip(width: int, moment: Moment, *, close: bool) -> Image:
    cells = []
    for index, picture in enumerate(moment.pictures):
        is_last = index == len(moment.pictures) - 1
        boxes = moment.boxes_xyxy if is_last else ()
        cells.append(_cell(picture, boxes, moment.focus_xyxy, close=close))
    canvas = _ground(cells[0].shape[0] + _GAP, width)
    for index, cell in enumerate(cells):
        left = _left_of(index)
        canvas[: cell.shape[0], left : left + CELL_WIDTH] = cell
    label = f"{moment.time_s:.1f} s" + (", close up" if close else "")
    _tag(canvas, label, (_MARGIN, cells[0].shape[0]))
    return canvas


def _cell(picture: Image, boxes: Sequence[Box], focus: Box, *, close: bool) -> Image:
    height, width = picture.shape[:2]
    left, top, right, bottom = _zoom_window(focus, width, height) if close else (0, 0, width, height)
    scale = CELL_WIDTH / (right - left)
    # Enlarged pixels stay visible as pixels: smooth enlarging would add detail that is not there.
    method = cv2.INTER_NEAREST if close else cv2.INTER_AREA
    cell = cv2.resize(
        picture[top:bottom, left:right],
        (CELL_WIDTH, round(CELL_WIDTH * height / width)),
        interpolation=method,
    )
    for x0, y0, x1, y1 in boxes:
        corner = (round((x0 - left) * scale), round((y0 - top) * scale))
        opposite = (round((x1 - left) * scale), round((y1 - top) * scale))
        cv2.rectangle(cell, corner, opposite, _BOX, 2, cv2.LINE_AA)
    return np.asarray(cell, np.uint8)


def _zoom_window(focus: Box, width: int, height: int) -> tuple[int, int, int, int]:
    """Window of the picture's own shape around ``focus``, inside the picture: left, top, right, bottom."""
    window_width = round(width * _ZOOM_WIDTH_SHARE)
    window_height = round(height * _ZOOM_WIDTH_SHARE)
    left = round((focus[0] + focus[2]) / 2 - window_width / 2)
    top = round((focus[1] + focus[3]) / 2 - window_height / 2)
    left = min(max(left, 0), width - window_width)
    top = min(max(top, 0), height - window_height)
    return left, top, left + window_width, top + window_height


def _footer(width: int, facts: Sequence[str]) -> Image:
    canvas = _ground(_MARGIN + _LINE_HEIGHT * len(facts), width)
    for index, fact in enumerate(facts):
        put_text(canvas, fact, (_MARGIN, 24 + index * _LINE_HEIGHT), _ACCENT, size=17)
    return canvas


def _tag(canvas: Image, text: str, bottom_left: tuple[int, int]) -> None:
    x, y = bottom_left
    canvas[y - 28 : y, x : x + 16 + round(8.5 * len(text))] //= 3
    put_text(canvas, text, (x + 8, y - 8), _INK, size=17)


def _left_of(index: int) -> int:
    return _MARGIN + index * (CELL_WIDTH + _GAP)


def _ground(height: int, width: int) -> Image:
    return np.full((height, width, 3), _GROUND, np.uint8)
