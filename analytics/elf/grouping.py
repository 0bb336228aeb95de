"""Objects that are cheaper to send in one tile than apart: a tree of tiles, from single objects up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analytics.elf.geometry import Boxes, Numbers

_MAX_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Cut:
    """How tiles are cut: sides in sent pixels are multiples of ``stride``, within ``frame_wh``."""

    frame_wh: tuple[int, int]
    stride: int
    align: int  # boxes begin at multiples of it, and so do tiles
    tile_px: float  # what a further tile costs, as pixels
    largest_px: float  # no worker may see a tile of more frame pixels


@dataclass(slots=True, eq=False)
class Group:
    """A tile and the two smaller tiles that it was joined from (none: a single object); never changed.

    Attributes:
        box: left, top, right, bottom around the padded objects, whole pixels.
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


@dataclass(slots=True)
class _Front:
    """The tiles of one round, as arrays: edges [4, n], scale [n], sent pixels [n]."""

    groups: list[Group]
    edges: Numbers
    scale: Numbers
    sent: Numbers


def group(boxes: Boxes, scales: Numbers, cut: Cut) -> list[Group]:
    """Join tiles while that saves pixels, the best pairs first (agglomerative, mutual best pairs at once).

    Args:
        boxes: [n, 4] padded objects within the frame, whole pixels.
        scales: [n] at which each may be sent; a joined tile takes the largest.
        cut: how tiles are cut.

    Returns:
        The tiles that no further join makes cheaper.
    """
    edges = np.ascontiguousarray(boxes.T)
    sent, seen = _measure(edges, scales, cut)
    rows = zip(boxes.tolist(), scales.tolist(), sent.tolist(), seen.tolist(), strict=True)
    groups = [Group(tuple(box), scale, px, shown, (row,)) for row, (box, scale, px, shown) in enumerate(rows)]
    front = _Front(groups, edges, scales, sent)
    for _ in range(_MAX_ROUNDS):
        if len(front.groups) < 2 or not _join(front, cut):
            break
    return front.groups


def _measure(edges: Numbers, scale: Numbers, cut: Cut) -> tuple[Numbers, Numbers]:
    """Sent pixels and shown frame pixels [n] of the tiles around ``edges`` [4, n]."""
    sides = [np.ceil((edges[axis + 2] - edges[axis]) * (scale / cut.stride)) * cut.stride for axis in (0, 1)]
    # whole frame pixels: boxes are whole pixels, so that what is rounded down still holds them
    width, height = (
        np.minimum(np.floor(side / scale + 1e-6), limit)
        for side, limit in zip(sides, cut.frame_wh, strict=True)
    )
    return np.asarray(sides[0] * sides[1]), np.asarray(width * height)


def _gains(front: _Front, cut: Cut) -> Numbers:
    """[n, n]: pixels saved by joining two tiles; nothing on the diagonal or where none may see it."""
    left, top, right, bottom = front.edges
    width = np.maximum.outer(right, right)
    width -= np.minimum.outer(left, left)
    height = np.maximum.outer(bottom, bottom)
    height -= np.minimum.outer(top, top)
    frame_px = cut.frame_wh[0] * cut.frame_wh[1]
    # the rounded tile is at most so much larger; only shares below the whole frame need the exact figure
    too_large = _too_large(front, width, height, cut) if cut.largest_px < frame_px else None
    scale = np.maximum.outer(front.scale, front.scale) if front.scale.min() < 1 else 1.0
    step = scale / cut.stride
    np.ceil(np.multiply(width, step, out=width), out=width)
    width *= np.ceil(np.multiply(height, step, out=height), out=height)
    width *= -(cut.stride**2)
    width += np.add.outer(front.sent + cut.tile_px, front.sent)
    np.fill_diagonal(width, 0.0)
    if too_large is not None:
        width[too_large] = 0.0
    return np.asarray(width)


def _too_large(front: _Front, width: Numbers, height: Numbers, cut: Cut) -> npt.NDArray[np.bool_]:
    scale = np.maximum.outer(front.scale, front.scale)
    shown = [
        np.minimum(np.floor(np.ceil(side * scale / cut.stride) * cut.stride / scale + 1e-6), limit)
        for side, limit in zip((width, height), cut.frame_wh, strict=True)
    ]
    return np.asarray(shown[0] * shown[1] > cut.largest_px)


def _join(front: _Front, cut: Cut) -> bool:
    """One round: join all pairs that are each other's best; whether there was one."""
    gains = _gains(front, cut)
    best = gains.argmax(1)
    rows = np.arange(len(best))
    pairs = np.flatnonzero((best[best] == rows) & (rows < best) & (gains[rows, best] > 0))
    if not len(pairs):
        return False
    others = best[pairs]
    edges = np.concatenate(
        [
            np.minimum(front.edges[:2, pairs], front.edges[:2, others]),
            np.maximum(front.edges[2:, pairs], front.edges[2:, others]),
        ]
    )
    scale = np.maximum(front.scale[pairs], front.scale[others])
    sent, seen = _measure(edges, scale, cut)
    joined = [
        Group(tuple(box), factor, px, shown, a.members + b.members, (a, b))
        for a, b, box, factor, px, shown in zip(
            [front.groups[row] for row in pairs.tolist()],
            [front.groups[row] for row in others.tolist()],
            edges.T.tolist(),
            scale.tolist(),
            sent.tolist(),
            seen.tolist(),
            strict=True,
        )
    ]
    alone = np.ones(len(best), np.bool_)
    alone[pairs] = alone[others] = False
    front.groups = [front.groups[row] for row in np.flatnonzero(alone).tolist()] + joined
    front.edges = np.concatenate([front.edges[:, alone], edges], 1)
    front.scale = np.concatenate([front.scale[alone], scale])
    front.sent = np.concatenate([front.sent[alone], sent])
    return True
