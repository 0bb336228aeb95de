"""Objects that are cheaper to send in one tile than apart: a tree of tiles, from single objects up."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

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
    """The tiles of one round; ``sides`` [6, n]: -left, -top, right, bottom, scale, sent pixels."""

    groups: list[Group]
    sides: Numbers
    is_full: bool  # everything is sent at full size


def group(boxes: Boxes, scales: Numbers, cut: Cut) -> list[Group]:
    """Join tiles while that saves pixels, the best pairs first (agglomerative, mutual best pairs at once).

    Args:
        boxes: [n, 4] padded objects within the frame, whole pixels.
        scales: [n] at which each may be sent; a joined tile takes the largest.
        cut: how tiles are cut.

    Returns:
        The tiles that no further join makes cheaper.
    """
    if len(boxes) < 2:
        rows = zip(boxes.tolist(), scales.tolist(), strict=True)
        return [measured(tuple(box), scale, (0,), None, cut) for box, scale in rows]
    groups = _single(boxes, scales, cut)
    sides = np.empty((6, len(groups)))
    sides[:2], sides[2:4], sides[4] = -boxes.T[:2], boxes.T[2:], scales
    sides[5] = [each.sent_px for each in groups]
    front = _Front(groups, sides, bool(scales.min() == 1))
    for _ in range(_MAX_ROUNDS):
        if not _join(front, cut):
            break
    return front.groups


def _single(boxes: Boxes, scales: Numbers, cut: Cut) -> list[Group]:
    """Each object as a tile of its own: ``measured`` for all of them at once."""
    sent = boxes[:, 2:] - boxes[:, :2]
    sent *= scales[:, None]
    sent /= cut.stride
    np.ceil(sent, out=sent)
    sent *= cut.stride
    seen = np.minimum(np.floor(sent / scales[:, None] + 1e-6), cut.frame_wh)
    rows = zip(boxes.tolist(), scales.tolist(), sent.prod(1).tolist(), seen.prod(1).tolist(), strict=True)
    return [
        Group((box[0], box[1], box[2], box[3]), scale, sent_px, seen_px, (row,))
        for row, (box, scale, sent_px, seen_px) in enumerate(rows)
    ]


def measured(
    box: tuple[float, float, float, float],
    scale: float,
    members: tuple[int, ...],
    parts: tuple[Group, Group] | None,
    cut: Cut,
) -> Group:
    """The tile around ``box`` at ``scale``, with the pixels that it costs."""
    step, (limit_x, limit_y) = cut.stride, cut.frame_wh
    width = ceil((box[2] - box[0]) * scale / step) * step
    height = ceil((box[3] - box[1]) * scale / step) * step
    # whole frame pixels: boxes are whole pixels, so that what is rounded down still holds them
    seen_x, seen_y = int(width / scale + 1e-6), int(height / scale + 1e-6)
    seen_px = min(seen_x, limit_x) * min(seen_y, limit_y)
    return Group(box, scale, width * height, seen_px, members, parts)


def _gains(front: _Front, cut: Cut) -> Numbers:
    """[n, n]: pixels saved by joining two tiles; nothing on the diagonal."""
    sides, sent = front.sides[:4], front.sides[5]
    hull = np.maximum(sides[:, :, None], sides[:, None, :])
    size = hull[:2]
    size += hull[2:]  # width and height
    if front.is_full:
        size *= 1.0 / cut.stride
    else:
        scale = front.sides[4]
        size *= np.maximum(scale[:, None], scale) / cut.stride
    np.ceil(size, out=size)
    gains = size[0]
    gains *= size[1]
    gains *= -(cut.stride**2)
    gains += (sent + cut.tile_px)[:, None]
    gains += sent
    gains.reshape(-1)[:: len(sent) + 1] = 0.0
    return np.asarray(gains)


def _join(front: _Front, cut: Cut) -> bool:
    """One round: join all pairs that are each other's best; whether there was one."""
    gains = _gains(front, cut)
    if cut.largest_px < cut.frame_wh[0] * cut.frame_wh[1]:
        _forbid(gains, front, cut)
    best, index = gains.argmax(1), np.arange(len(gains))
    firsts = ((best[best] == index) & (index < best) & (gains.max(1) > 0)).nonzero()[0]
    if not len(firsts):
        return False
    seconds = best[firsts]
    index[seconds] = -1
    kept = (index >= 0).nonzero()[0]
    index[firsts] = seconds  # with whom each is joined: most with themselves
    groups, sides = front.groups, front.sides[:5]
    for a, b in zip(firsts.tolist(), seconds.tolist(), strict=True):
        groups[a] = _both(groups[a], groups[b], cut)
    front.groups = groups = [groups[row] for row in kept.tolist()]
    front.sides = np.empty((6, len(groups)))
    np.maximum(sides.take(kept, 1), sides.take(index[kept], 1), out=front.sides[:5])
    front.sides[5] = [each.sent_px for each in groups]
    return len(groups) > 1


def _both(one: Group, two: Group, cut: Cut) -> Group:
    (left, top, right, bottom), other = one.box, two.box
    box = (
        left if left < other[0] else other[0],
        top if top < other[1] else other[1],
        right if right > other[2] else other[2],
        bottom if bottom > other[3] else other[3],
    )
    scale = one.scale if one.scale > two.scale else two.scale
    return measured(box, scale, one.members + two.members, (one, two), cut)


def _forbid(gains: Numbers, front: _Front, cut: Cut) -> None:
    """No gain where no worker may see the joined tile."""
    hull = np.maximum(front.sides[:4, :, None], front.sides[:4, None, :])
    scale = np.maximum(front.sides[4][:, None], front.sides[4])
    shown = np.ceil((hull[:2] + hull[2:]) * (scale / cut.stride)) * (cut.stride / scale)
    shown = np.minimum(np.floor(shown + 1e-6), np.array(cut.frame_wh)[:, None, None])
    gains[shown[0] * shown[1] > cut.largest_px] = 0.0
