"""One picture's detections from the answers about its tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analytics.detections import Detections
from analytics.elf.cutting import CUT_PX
from analytics.elf.geometry import Mask, Numbers, Rows, areas, mutual_best, shared_areas
from analytics.elf.types import Skipped, Tile
from analytics.interface import DetectorConfig
from analytics.suppression import MAX_CANDIDATES, kept_rows

COVERED = 0.6  # a cut box that lies so far within another one of its class is a piece of it
_FIT = 0.6  # two pieces are one object if they share so much of their length along the border
_GAP = 0.25  # and lie no further apart across it, in parts of the smaller one


@dataclass(slots=True)
class _Placed:
    """Detections in frame pixels, the edges [n, 4] at which a tile cut them, and their tile's scale [n]."""

    found: Detections
    cut: Mask
    scale: Numbers

    def take(self, rows: Mask | Rows | slice) -> _Placed:
        return _Placed(self.found[rows], self.cut[rows], self.scale[rows])


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
    what then overlaps, whole boxes come before pieces, tiles sent at a larger scale before smaller ones,
    then higher scores (greedy suppression, as the detectors do it).

    Args:
        frame_wh: width and height of the frame in pixels.
        parts: every tile, the look among them, with its detections in pixels of the picture sent.
        config: thresholds; its ``max_detections`` bounds the result.
        skipped: of the plan: known objects that were not sent; those that stand still are as they were.
        names: the detector's class names, needed where there may be no parts.

    Raises:
        UsageError: parts by detectors with different class names.
    """
    settings = config or DetectorConfig(min_score=0.0)
    names = parts[0][1].names if parts else names
    placed = [_place(frame_wh, tile, found) for tile, found in parts] + [_carried(skipped, names)]
    every = _ordered(placed).take(slice(MAX_CANDIDATES))
    every = every.take(every.found.scores >= settings.min_score)
    every = every.take(~_covered(every))
    every = _joined(every)
    return _suppress(every, settings).clipped(*frame_wh)


def _place(frame_wh: tuple[int, int], tile: Tile, found: Detections) -> _Placed:
    sent = np.array(tile.sent_wh * 2, np.float64)
    size = np.array([tile.width, tile.height] * 2, np.float64)
    offset = np.array([tile.left, tile.top] * 2, np.float64)
    local = np.clip(found.boxes_xyxy.astype(np.float64), 0, sent)
    inner = np.array([tile.left > 0, tile.top > 0, tile.right < frame_wh[0], tile.bottom < frame_wh[1]])
    near = np.concatenate([local[:, :2] <= CUT_PX, local[:, 2:] >= sent[2:] - CUT_PX], 1)
    boxes = (local * (size / sent) + offset).astype(np.float32)
    placed = Detections(boxes, found.scores, found.class_ids, found.names)
    return _Placed(placed, near & inner, np.full(len(found), tile.scale))


def _carried(skipped: Sequence[Skipped], names: tuple[str, ...]) -> _Placed:
    still = [each for each in skipped if each.reason == "quiet"]
    found = Detections(
        np.array([each.box_xyxy for each in still], np.float32).reshape(-1, 4),
        np.array([each.score for each in still], np.float32),
        np.array([each.class_id for each in still], np.int64),
        names,
    )
    return _Placed(found, np.zeros((len(found), 4), np.bool_), np.ones(len(found)))


def _ordered(placed: Sequence[_Placed]) -> _Placed:
    """All rows, the most believable first; a total order, so that the order of the parts does not matter."""
    found = Detections.concatenate([part.found for part in placed])
    cut = np.concatenate([part.cut for part in placed])
    scale = np.concatenate([part.scale for part in placed])
    keys = (*cut.T, *found.boxes_xyxy.T, found.class_ids, -found.scores, -scale, cut.any(1))
    order = np.lexsort(keys)
    return _Placed(found, cut, scale).take(order)


def _covered(every: _Placed) -> Mask:
    """Which cut boxes are pieces of a whole box, or of a larger piece, of their class."""
    is_cut: Mask = np.asarray(every.cut.any(1))
    if not is_cut.any():
        return is_cut
    boxes = every.found.boxes_xyxy.astype(np.float64)
    size = areas(boxes)
    within = shared_areas(boxes, boxes) >= COVERED * np.maximum(size, 1e-9)[:, None]
    within &= every.found.class_ids[:, None] == every.found.class_ids[None]
    before = np.arange(len(size))
    larger = (size[None] > size[:, None]) | ((size[None] == size[:, None]) & (before[None] < before[:, None]))
    return np.asarray(is_cut & (within & (~is_cut[None] | larger)).any(1))


def _joined(every: _Placed) -> _Placed:
    """Pieces of one object on both sides of a border as one box, cut where neither goes on."""
    for first, second in (
        (2, 0),
        (3, 1),
    ):  # right piece's left edge at the left piece's right edge; downwards
        a, b = np.flatnonzero(every.cut[:, first]), np.flatnonzero(every.cut[:, second])
        if not len(a) or not len(b):
            continue
        fit = _fit(every, a, b, across=second)
        left, right = mutual_best(fit, _FIT)
        if len(left):
            every = _united(every, a[left], b[right], first, second)
    return every


def _fit(every: _Placed, a: Rows, b: Rows, across: int) -> Numbers:
    """[a, b]: shared part of their length along the border; 0 for pieces that cannot be one object."""
    boxes = every.found.boxes_xyxy.astype(np.float64)
    along = 1 - across
    one, two = boxes[a][:, None], boxes[b][None]
    shared = np.minimum(one[..., along + 2], two[..., along + 2]) - np.maximum(
        one[..., along], two[..., along]
    )
    length = np.maximum(one[..., along + 2] - one[..., along], two[..., along + 2] - two[..., along])
    gap = two[..., across] - one[..., across + 2]  # negative where the tiles overlap
    depth = np.minimum(one[..., across + 2] - one[..., across], two[..., across + 2] - two[..., across])
    possible = (
        (gap <= _GAP * depth)
        & (two[..., across] > one[..., across])
        & (two[..., across + 2] > one[..., across + 2])
    )
    possible &= every.found.class_ids[a][:, None] == every.found.class_ids[b][None]
    return np.asarray(np.where(possible, shared / np.maximum(length, 1e-9), 0.0))


def _united(every: _Placed, a: Rows, b: Rows, first: int, second: int) -> _Placed:
    boxes = every.found.boxes_xyxy.copy()
    one, two = boxes[a], boxes[b]
    boxes[a] = np.concatenate([np.minimum(one[:, :2], two[:, :2]), np.maximum(one[:, 2:], two[:, 2:])], 1)
    scores, cut, scale = every.found.scores.copy(), every.cut.copy(), every.scale.copy()
    scores[a] = np.maximum(scores[a], scores[b])
    ends = cut[a] | cut[b]
    ends[:, first], ends[:, second] = cut[b, first], cut[a, second]
    cut[a], scale[a] = ends, np.minimum(scale[a], scale[b])
    keep = np.ones(len(scores), np.bool_)
    keep[b] = False
    found = Detections(boxes, scores, every.found.class_ids, every.found.names)
    return _ordered([_Placed(found, cut, scale).take(keep)])


def _suppress(every: _Placed, settings: DetectorConfig) -> Detections:
    """Greedy suppression in the order of the rows, not by score alone; then the strongest first."""
    found = every.found
    if not len(found):
        return found
    ranks = np.linspace(1.0, 0.5, len(found), dtype=np.float32)
    kept = found[kept_rows(found, ranks, settings.max_overlap_iou)]
    return kept[np.argsort(-kept.scores, kind="stable")[: settings.max_detections]]
