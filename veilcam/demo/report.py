"""What the demonstration leaves behind: the picture sheet, summary.json and the lines at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from base.errors import MediaError
from base.files import atomic_write
from veilcam.demo.folder import DemoFolder
from veilcam.demo.pictures import Image, frames_at
from veilcam.demo.sheet import Box, Column, Moment, draw_sheet

_COLUMNS = (
    Column("Camera", "clear; never leaves the camera"),
    Column("Everybody", "protected; plays anywhere"),
    Column("Key holder", "decoded; the camera's own stream again"),
    Column("Analytics", "unmodified detector, protected picture"),
)
_NUM_MOMENTS = 2
_SMALL_WIDTH = 1400
_SMALL_BYTES = 240_000
_MAX_FOCUS_SHARE = 0.1  # of the picture: what is larger is hardly one person


def write_sheet(source: Path, folder: DemoFolder, facts: list[str]) -> None:
    """Draw the sheet from the clips in ``folder`` at the moments with the most to see."""
    rows = [json.loads(line) for line in folder.detections.read_text().splitlines()]
    chosen = _moments(rows)
    numbers = {row["frame"] for row in chosen}
    clear, protected, decoded = (
        frames_at(path, numbers) for path in (source, folder.protected, folder.decoded)
    )
    moments = []
    for row in chosen:
        number = row["frame"]
        if not all(number in frames for frames in (clear, protected, decoded)):
            continue
        boxes = [_box(item) for item in row["detections"]]
        height, width = protected[number].shape[:2]
        clearest = _clearest(row)
        focus = _box(clearest) if clearest else (0.0, 0.0, float(width), float(height))
        shown = protected[number]
        pictures = (
            _fitted(clear[number], width, height),
            shown,
            _fitted(decoded[number], width, height),
            shown,
        )
        moments.append(Moment(row["time_s"], pictures, tuple(boxes), focus))
    if not moments:
        raise MediaError("sheet: the clips have no moment in common")
    sheet = draw_sheet(f"veilcam demo: {source.name}", _COLUMNS, moments, facts)
    atomic_write(folder.sheet, _coded(sheet, ".png", []))
    atomic_write(folder.small_sheet, _small(sheet))


def _small(sheet: Image) -> bytes:
    """A JPEG for web pages, at most 240 kB."""
    height, width = sheet.shape[:2]
    size_wh = (_SMALL_WIDTH, round(height * _SMALL_WIDTH / width))
    small = np.asarray(cv2.resize(sheet, size_wh, interpolation=cv2.INTER_AREA), np.uint8)
    for quality in range(90, 20, -5):
        data = _coded(small, ".jpg", [cv2.IMWRITE_JPEG_QUALITY, quality])
        if len(data) <= _SMALL_BYTES:
            break
    return data


def _coded(picture: Image, suffix: str, parameters: list[int]) -> bytes:
    fine, data = cv2.imencode(suffix, picture, parameters)
    if not fine:
        raise MediaError(f"sheet: could not be coded as {suffix}")
    return bytes(data.tobytes())


def _moments(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In each of equal parts of the clip, the picture with the clearest large detection; in order of time."""
    if not rows:
        raise MediaError("sheet: the detector looked at no picture")
    size = max(1, len(rows) // _NUM_MOMENTS)
    parts = [rows[start : start + size] for start in range(0, size * _NUM_MOMENTS, size)]
    return [max(part, key=lambda row: _worth(_clearest(row), row)) for part in parts if part]


def _clearest(row: dict[str, Any]) -> dict[str, Any] | None:
    """The detection that is worth a closer look."""
    return max(row["detections"], key=lambda item: _worth(item, row), default=None)


def _worth(item: dict[str, Any] | None, row: dict[str, Any]) -> float:
    if item is None:
        return -1.0
    share = _area(_box(item)) / (row["width"] * row["height"])
    return 0.0 if share > _MAX_FOCUS_SHARE else share * float(item["score"])


def _box(item: dict[str, Any]) -> Box:
    left, top, right, bottom = (float(edge) for edge in item["box_xyxy"])
    return left, top, right, bottom


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _fitted(picture: Image, width: int, height: int) -> Image:
    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def write_summary(folder: DemoFolder, summary: dict[str, Any]) -> None:
    """Write summary.json."""
    atomic_write(folder.summary, json.dumps(summary, indent=2).encode() + b"\n")
