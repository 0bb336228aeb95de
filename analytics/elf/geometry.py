"""Arithmetic of boxes [n, 4] (left, top, right, bottom) in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


def areas(boxes: Boxes) -> Numbers:
    """Area of each box, [n]."""
    return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))


def shared_areas(a: Boxes, b: Boxes) -> Numbers:
    """Area that a[i] and b[j] share, [len(a), len(b)]."""
    # one axis after the other: an innermost dimension of two would be most of the time
    wide = np.minimum(a[:, 2, None], b[:, 2])
    wide -= np.maximum(a[:, 0, None], b[:, 0])
    np.maximum(wide, 0, out=wide)
    high = np.minimum(a[:, 3, None], b[:, 3])
    high -= np.maximum(a[:, 1, None], b[:, 1])
    np.maximum(high, 0, out=high)
    wide *= high
    return np.asarray(wide)


def overlaps(a: Boxes, b: Boxes) -> Numbers:
    """Intersection over union of a[i] and b[j], [len(a), len(b)]."""
    shared = shared_areas(a, b)
    union = areas(a)[:, None] + areas(b)
    union -= shared
    np.maximum(union, 1e-9, out=union)
    shared /= union
    return shared


def whole_within(boxes: Boxes, holders: Boxes) -> Mask:
    """[len(boxes), len(holders)]: box i lies wholly within holder j."""
    within = boxes[:, 0, None] >= holders[:, 0]
    within &= boxes[:, 1, None] >= holders[:, 1]
    within &= boxes[:, 2, None] <= holders[:, 2]
    within &= boxes[:, 3, None] <= holders[:, 3]
    return np.asarray(within)


def mutual_best(score: Numbers, lowest: float) -> tuple[Rows, Rows]:
    """Pairs (row, column) by falling score, each row and column once, none below ``lowest``.

    The same pairs as the greedy choice one by one: a pair that is best for both sides is what greed takes
    sooner or later.
    """
    rest = np.where(score >= lowest, score, -np.inf)
    rows: list[Rows] = []
    columns: list[Rows] = []
    index, free = np.arange(len(rest)), min(rest.shape)
    while free:
        best = rest.argmax(1)
        found = np.flatnonzero((rest[index, best] > -np.inf) & (rest.argmax(0)[best] == index))
        if not len(found):
            break
        taken = best[found]
        rows.append(found)
        columns.append(taken)
        free -= len(found)
        if free:
            rest[found] = -np.inf
            rest[:, taken] = -np.inf
    if len(rows) == 1:
        return rows[0], columns[0]
    empty = np.zeros(0, np.intp)
    return np.concatenate([empty, *rows]), np.concatenate([empty, *columns])
