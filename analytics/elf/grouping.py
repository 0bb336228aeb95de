"""Objects that are cheaper to send in one tile than apart: a tree of tiles, from single objects up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analytics.elf.geometry import Boxes, Numbers

_MAX_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Cut:
    """How tiles are cut: sides in sent pixels are multiples of ``stride``, within ``frame_wh``."""

    frame_wh: tuple[int, int]
    stride: int
    tile_px: float  # what a further tile costs, as pixels
    largest_px: float  # no worker may see a tile of more frame pixels


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A tile and the two smaller tiles that it was joined from (none: a single object).

    Attributes:
        box: left, top, right, bottom around the padded objects.
        scale: at which it is sent.
        sent_px: pixels that are sent and detected in, rounded up to the stride.
        seen_px: pixels of the frame that it shows.
        members: rows of the objects in it.
        parts: what it splits into.
    """

    box: tuple[float, float, float, float]
    scale: float
    sent_px: float
    seen_px: float
    members: tuple[int, ...]
    parts: tuple[Group, Group] | None = None


def group(boxes: Boxes, scales: Numbers, cut: Cut) -> list[Group]:
    """Join tiles while that saves pixels, the best pairs first (agglomerative, mutual best pairs at once).

    Args:
        boxes: [n, 4] padded objects within the frame.
        scales: [n] at which each may be sent; a joined tile takes the largest.
        cut: how tiles are cut.

    Returns:
        The tiles that no further join makes cheaper.
    """
    sent, seen = measure(boxes, scales, cut)
    groups = [
        Group(tuple(box), scale, pixels, shown, (row,))
        for row, (box, scale, pixels, shown) in enumerate(
            zip(boxes.tolist(), scales.tolist(), sent.tolist(), seen.tolist(), strict=True)
        )
    ]
    for _ in range(_MAX_ROUNDS):
        if len(groups) < 2:
            break
        joined = _round(groups, boxes, scales, sent, cut)
        if joined is None:
            break
        groups, boxes, scales, sent = joined
    return groups


def measure(boxes: Boxes, scales: Numbers, cut: Cut) -> tuple[Numbers, Numbers]:
    """Sent pixels and shown frame pixels of the tiles around ``boxes`` [..., 4] at ``scales`` [...]."""
    sides = (boxes[..., 2:] - boxes[..., :2]) * scales[..., None]
    sides = np.ceil(sides / cut.stride)
    sides *= cut.stride
    # whole frame pixels: boxes are whole pixels, so that what is rounded down still holds them
    shown = np.minimum(np.floor(sides / scales[..., None] + 1e-6), cut.frame_wh)
    return np.asarray(sides[..., 0] * sides[..., 1]), np.asarray(shown[..., 0] * shown[..., 1])


def _round(
    groups: list[Group], boxes: Boxes, scales: Numbers, sent: Numbers, cut: Cut
) -> tuple[list[Group], Boxes, Numbers, Numbers] | None:
    count = len(groups)
    first, second = np.triu_indices(count, 1)
    hull = np.concatenate(
        [np.minimum(boxes[first, :2], boxes[second, :2]), np.maximum(boxes[first, 2:], boxes[second, 2:])], 1
    )
    scale = np.maximum(scales[first], scales[second])
    hull_sent, hull_seen = measure(hull, scale, cut)
    gain = sent[first] + sent[second] + cut.tile_px - hull_sent
    gain[hull_seen > cut.largest_px] = 0.0
    if gain.max() <= 0:
        return None
    table = np.zeros((count, count))
    table[first, second] = table[second, first] = gain
    best = table.argmax(1)
    rows = np.arange(count)
    pairs = rows[(table[rows, best] > 0) & (best[best] == rows) & (rows < best)]
    gone = set(pairs.tolist()) | set(best[pairs].tolist())
    kept = [row for row in range(count) if row not in gone]
    at = np.zeros((count, count), np.intp)
    at[first, second] = np.arange(len(first))
    chosen = at[pairs, best[pairs]]
    new = [
        Group(tuple(box), s, px, shown, groups[a].members + groups[b].members, (groups[a], groups[b]))
        for a, b, box, s, px, shown in zip(
            pairs.tolist(),
            best[pairs].tolist(),
            hull[chosen].tolist(),
            scale[chosen].tolist(),
            hull_sent[chosen].tolist(),
            hull_seen[chosen].tolist(),
            strict=True,
        )
    ]
    return (
        [groups[row] for row in kept] + new,
        np.concatenate([boxes[kept], hull[chosen]]),
        np.concatenate([scales[kept], scale[chosen]]),
        np.concatenate([sent[kept], hull_sent[chosen]]),
    )
