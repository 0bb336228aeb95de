"""What the demonstration leaves behind: the picture sheet, summary.json and the lines at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2

from base.errors import MediaError
from base.files import atomic_write
from veilcam.demo.folder import DemoFolder
from veilcam.demo.pictures import frames_at
from veilcam.demo.sheet import Box, Column, Moment, draw_sheet

_COLUMNS = (
    Column("Camera", "clear; never leaves the camera"),
    Column("Everybody", "protected; plays anywhere"),
    Column("Key holder", "decoded; the camera's own stream again"),
    Column("Analytics", "unmodified detector, protected picture"),
)
_NUM_MOMENTS = 2


def write_sheet(source: Path, folder: DemoFolder, facts: list[str]) -> None:
    """Draw the sheet from the clips in ``folder`` at the moments with the most to see."""
    rows = [json.loads(line) for line in folder.detections.read_text().splitlines()]
    chosen = _moments(rows)
    numbers = {row["frame"] for row in chosen}
    clear, protected, decoded = (frames_at(path, numbers) for path in (source, folder.protected, folder.decoded))
    moments = []
    for row in chosen:
        number = row["frame"]
        if not all(number in frames for frames in (clear, protected, decoded)):
            continue
        boxes = [_box(item) for item in row["detections"]]
        height, width = protected[number].shape[:2]
        focus = max(boxes, key=_area, default=(0.0, 0.0, float(width), float(height)))
        shown = protected[number]
        pictures = (_fitted(clear[number], width, height), shown, _fitted(decoded[number], width, height), shown)
        moments.append(Moment(row["time_s"], pictures, tuple(boxes), focus))
    if not moments:
        raise MediaError("sheet: the clips have no moment in common")
    sheet = draw_sheet(f"veilcam demo: {source.name}", _COLUMNS, moments, facts)
    fine, data = cv2.imencode(".png", sheet)
    if not fine:
        raise MediaError("sheet: could not be coded as PNG")
    atomic_write(folder.sheet, data.tobytes())


def _moments(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In each of equal parts of the clip, the picture with the largest detection; in order of time."""
    if not rows:
        raise MediaError("sheet: the detector looked at no picture")
    size = max(1, len(rows) // _NUM_MOMENTS)
    parts = [rows[start : start + size] for start in range(0, size * _NUM_MOMENTS, size)]
    return [max(part, key=_largest) for part in parts if part]


def _largest(row: dict[str, Any]) -> float:
    return max((_area(_box(item)) * float(item["score"]) for item in row["detections"]), default=0.0)


def _box(item: dict[str, Any]) -> Box:
    left, top, right, bottom = (float(edge) for edge in item["box_xyxy"])
    return left, top, right, bottom


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _fitted(picture: Any, width: int, height: int) -> Any:  # noqa: ANN401  # arrays, as cv2 types them
    if picture.shape[:2] == (height, width):
        return picture
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)


def write_summary(folder: DemoFolder, summary: dict[str, Any]) -> None:
    """Write summary.json."""
    atomic_write(folder.summary, json.dumps(summary, indent=2).encode() + b"\n")
