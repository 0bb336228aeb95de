"""One picture's detections from the answers about its tiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analytics.detections import Detections
from analytics.elf.cutting import CUT_PX
from analytics.elf.types import Skipped, Tile
from analytics.interface import DetectorConfig
from analytics.suppression import suppress

COVERED = 0.6  # a cut box that lies so far within a whole one of its class is a piece of it
_Boxes = npt.NDArray[np.float64]
_Mask = npt.NDArray[np.bool_]


def merge(
    frame_wh: tuple[int, int],
    parts: Sequence[tuple[Tile, Detections]],
    config: DetectorConfig | None = None,
    *,
    skipped: Sequence[Skipped] = (),
    names: tuple[str, ...] = (),
) -> Detections:
    """What was found in the whole frame, whatever the order of ``parts``.

    Boxes are moved and scaled to the frame. A box that ends at a tile's inner border is a piece of an object:
    it gives way to a whole box of its class; pieces that fit together across a border become one box. Of
    what then overlaps, tiles sent at a larger scale come first, then higher scores.

    Args:
        frame_wh: width and height of the frame in pixels.
        parts: every tile, the look among them, with its detections in pixels of the picture sent.
        config: thresholds; its ``max_detections`` bounds the result.
        skipped: of the plan: known objects that were not sent; they stand as they were.
        names: the detector's class names, needed where there may be no parts.

    Raises:
        UsageError: parts by detectors with different class names.
    """
    settings = config or DetectorConfig(min_score=0.0)
    names = parts[0][1].names if parts else names
    placed = [_place(frame_wh, tile, found) for tile, found in parts]
    placed.append(_carried(skipped, names))
    every = Detections.concatenate([found for found, _, _ in placed])
    cut = np.concatenate([cut for _, cut, _ in placed])
    scale = np.concatenate([scale for _, _, scale in placed])
    order = np.lexsort(
        (*every.boxes_xyxy.T[::-1], every.class_ids, -every.scores, -scale, cut)
    )  # a total order of the rows, so that the order of the parts does not matter
    every, cut = every[order], cut[order]
    keep = ~(cut & _covered(every, cut))
    kept = _join_pieces(every[keep], cut[keep])
    return suppress(kept, settings).clipped(*frame_wh)


def _place(
    frame_wh: tuple[int, int], tile: Tile, found: Detections
) -> tuple[Detections, _Mask, npt.NDArray[np.float64]]:
    """A tile's detections in the frame, which of them its border cuts, and the tile's scale for each."""
    sent = np.array(tile.sent_wh * 2, np.float64)
    size = np.array([tile.width, tile.height] * 2, np.float64)
    offset = np.array([tile.left, tile.top] * 2, np.float64)
    local = np.clip(found.boxes_xyxy.astype(np.float64), 0, sent)
    inner = np.array([tile.left > 0, tile.top > 0, tile.right < frame_wh[0], tile.bottom < frame_wh[1]])
    near = np.concatenate([local[:, :2] <= CUT_PX, local[:, 2:] >= sent[2:] - CUT_PX], 1)
    boxes = (local * (size / sent) + offset).astype(np.float32)
    placed = Detections(boxes, found.scores, found.class_ids, found.names)
    return placed, (near & inner).any(1), np.full(len(found), tile.scale)


def _carried(
    skipped: Sequence[Skipped], names: tuple[str, ...]
) -> tuple[Detections, _Mask, npt.NDArray[np.float64]]:
    found = Detections(
        np.array([each.box_xyxy for each in skipped], np.float32).reshape(-1, 4),
        np.array([each.score for each in skipped], np.float32),
        np.array([each.class_id for each in skipped], np.int64),
        names,
    )
    return found, np.zeros(len(found), np.bool_), np.ones(len(found))


def _covered(every: Detections, cut: _Mask) -> _Mask:
    """Which boxes lie mostly within another whole box of their class."""
    boxes = every.boxes_xyxy.astype(np.float64)
    within = _shared(boxes, boxes) / np.maximum(_areas(boxes), 1e-9)[:, None]
    same = every.class_ids[:, None] == every.class_ids[None]
    return np.asarray(((within >= COVERED) & same & ~cut[None]).any(1))


def _join_pieces(every: Detections, cut: _Mask) -> Detections:
    return every


def _areas(boxes: _Boxes) -> npt.NDArray[np.float64]:
    return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))


def _shared(a: _Boxes, b: _Boxes) -> npt.NDArray[np.float64]:
    """Area that a[i] and b[j] share, [len(a), len(b)]."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = np.clip(high - low, 0, None)
    return np.asarray(sides[..., 0] * sides[..., 1])
