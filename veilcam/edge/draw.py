"""Tiles and their owners drawn into a picture."""

from __future__ import annotations

import cv2

from analytics.elf.types import Tile
from analytics.interface import Image
from analytics.pool import PoolResult, TileOutcome

# Okabe and Ito's colours (BGR), then darker ones: told apart by colour-blind readers, and named anyway.
COLOURS_BGR = (
    (233, 180, 86),
    (0, 159, 230),
    (115, 158, 0),
    (167, 121, 204),
    (66, 228, 240),
    (0, 94, 213),
    (178, 114, 0),
    (200, 200, 120),
)
LOCAL_BGR = (210, 210, 210)
MISSING_BGR = (60, 60, 220)
_FONT = cv2.FONT_HERSHEY_SIMPLEX


def colour_of(name: str, names: list[str]) -> tuple[int, int, int]:
    """A worker's colour; the same in the video and in the time line."""
    return COLOURS_BGR[names.index(name) % len(COLOURS_BGR)] if name in names else LOCAL_BGR


def draw_tiles(image_bgr_hwc: Image, result: PoolResult, names: list[str]) -> Image:
    """A copy with every tile outlined and named after who answered; the rest of the picture is darker."""
    canvas = (image_bgr_hwc // 2).astype(image_bgr_hwc.dtype)
    scale = max(0.5, min(canvas.shape[:2]) / 720)
    for outcome in result.outcomes:
        if not outcome.is_look and outcome.found is not None:
            _lighten(canvas, image_bgr_hwc, outcome.tile)
    for outcome in result.outcomes:
        _outline(canvas, outcome, names, scale)
    found, sent = len(result.detections), result.sent_bytes / 1000
    text = f"{1000 * result.latency_s:.0f} ms   {found} found   {sent:.0f} kB"
    cv2.putText(canvas, text, (8, canvas.shape[0] - 10), _FONT, 0.7 * scale, (0, 0, 0), 4, cv2.LINE_AA)
    cv2.putText(canvas, text, (8, canvas.shape[0] - 10), _FONT, 0.7 * scale, (255, 255, 255), 1, cv2.LINE_AA)
    return canvas


def _lighten(canvas: Image, source: Image, tile: Tile) -> None:
    area = slice(tile.top, tile.bottom), slice(tile.left, tile.right)
    canvas[area] = source[area]


def _outline(canvas: Image, outcome: TileOutcome, names: list[str], scale: float) -> None:
    tile = outcome.tile
    colour = MISSING_BGR if outcome.kind == "missing" else colour_of(outcome.worker, names)
    inset = round(6 * scale) if outcome.is_look else 1
    corners = (tile.left + inset, tile.top + inset), (tile.right - 1 - inset, tile.bottom - 1 - inset)
    cv2.rectangle(canvas, *corners, colour, max(1, round(2 * scale)), cv2.LINE_AA)
    text = {"missing": "no answer", "local": "camera"}.get(outcome.kind, outcome.worker)
    text = f"look: {text}" if outcome.is_look else text
    place = (tile.left + inset + 4, tile.bottom - inset - 6)
    cv2.putText(canvas, text, place, _FONT, 0.55 * scale, (0, 0, 0), 3, cv2.LINE_AA)
    cv2.putText(canvas, text, place, _FONT, 0.55 * scale, colour, 1, cv2.LINE_AA)
