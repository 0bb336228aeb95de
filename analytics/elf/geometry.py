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
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:])
    sides -= np.maximum(a[:, None, :2], b[None, :, :2])
    np.maximum(sides, 0, out=sides)
    return np.asarray(sides[..., 0] * sides[..., 1])


def overlaps(a: Boxes, b: Boxes) -> Numbers:
    """Intersection over union of a[i] and b[j], [len(a), len(b)]."""
    shared = shared_areas(a, b)
    return np.asarray(shared / np.maximum(areas(a)[:, None] + areas(b)[None] - shared, 1e-9))


def whole_within(boxes: Boxes, holders: Boxes) -> Mask:
    """[len(boxes), len(holders)]: box i lies wholly within holder j."""
    low = (boxes[:, None, :2] >= holders[None, :, :2]).all(2)
    return np.asarray(low & (boxes[:, None, 2:] <= holders[None, :, 2:]).all(2))


def mutual_best(score: Numbers, lowest: float) -> tuple[Rows, Rows]:
    """Pairs (row, column) by falling score, each row and column once, none below ``lowest``.

    The same pairs as the greedy choice one by one: a pair that is best for both sides is what greed takes
    sooner or later.
    """
    rest = np.where(score >= lowest, score, -np.inf)
    rows: list[Rows] = []
    columns: list[Rows] = []
    while rest.size:
        best = rest.argmax(1)
        index = np.arange(len(rest))
        found = (rest[index, best] > -np.inf) & (rest.argmax(0)[best] == index)
        if not found.any():
            break
        rows.append(index[found])
        columns.append(best[found])
        rest[index[found]] = -np.inf
        rest[:, best[found]] = -np.inf
    empty = np.zeros(0, np.intp)
    return np.concatenate([empty, *rows]), np.concatenate([empty, *columns])
