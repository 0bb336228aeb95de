"""Hiding the original in the protected picture's pixels under a segment's key, and reading it back.

The hiding side pays only where it buys something: cells that the protected picture shows almost as they
were carry nothing, and where it did not change since the picture before, the samples published
before are repeated, so that the H.264 encoder skips them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from base.frames import ClearFrame, ProtectedFrame
from codec.rotations import Rotations
from keys.schedule import PixelStream
from models.pixels import CELL_MULTIPLE, Latents, PixelModel, Plane, Planes

LEAST_OCTAVES = {"low": 1.5, "high": 0.5}
"""Cells drawn at least so much coarser than the original carry latents; else there is little to recover."""
BEACON = (5, 10)
"""Rows and columns of cells at the upper left that always carry: so a key shows itself in every picture."""

_HALO_CELLS = 9
"""How many of its own cells a pattern can depend on: eight 3x3 convolutions, and one to spare."""

Cells = npt.NDArray[np.bool_]
Window = tuple[int, int, int, int]  # top, bottom, left, right in luma pixels, on borders of cells


class PixelKeys(Protocol):
    """What is needed of keys.SegmentKeys."""

    def pixel_stream(self) -> PixelStream:
        """The key stream from its start."""


def _planes(frame: ClearFrame | ProtectedFrame) -> Planes:
    return Planes(frame.luma_hw, frame.cb_hw, frame.cr_hw)


class PixelHider:
    """The camera's side, for one stream of one picture size. Not for two threads."""

    def __init__(self, model: PixelModel) -> None:
        self._model = model
        self._least_octaves = LEAST_OCTAVES[model.setting]
        self._keys: PixelKeys | None = None
        self._rotations: Rotations | None = None
        self._base: Planes | None = None  # the last protected picture of this segment
        self._hidden: Planes | None = None  # what was published of it

    def begin(self, keys: PixelKeys) -> None:
        """Start a segment: the next picture is hidden under its key, all of it anew."""
        self._keys = keys
        self._rotations = self._base = self._hidden = None

    def hide(self, clear: ClearFrame, protected: ProtectedFrame) -> ProtectedFrame:
        """The picture to publish; ``clear`` and ``protected`` are of one size.

        Cells that lost little detail carry nothing, as the protected picture shows them well enough; where
        ``protected`` does not say what was lost, every cell carries. ``protected`` is looked at again with
        the next picture: its samples must not be written to.
        """
        planes = _planes(protected)
        if self._rotations is None or self._base is None or self._hidden is None:
            rows, columns = self._model.grid(protected.height, protected.width)
            assert self._keys is not None, "begin comes first"  # noqa: S101  (a caller's bug, not an input)
            self._rotations = Rotations(self._keys.pixel_stream(), self._model.channels, rows, columns)
            changed = np.ones(_cell_grid(planes), np.bool_)
            self._hidden = planes
        else:
            changed = changed_cells(self._base, planes)
        if changed.any():
            original, carrying = _planes(clear), changed
            if protected.lost_octaves is not None:
                lacking: Cells = np.asarray(protected.lost_octaves >= self._least_octaves, np.bool_)
                original = _filled(original, planes, lacking)
                carrying = changed & _with_beacon(lacking)
            self._hidden = self._redrawn(original, planes, changed, carrying)
        self._base = planes
        return replace(
            protected, luma_hw=self._hidden.luma_hw, cb_hw=self._hidden.cb_hw, cr_hw=self._hidden.cr_hw
        )

    def _redrawn(self, clear: Planes, protected: Planes, changed: Cells, carrying: Cells) -> Planes:
        """What was published before, changed cells from ``protected``, with latents in the carrying."""
        assert self._hidden is not None  # noqa: S101  (for the type checker)
        result = Planes(*(plane.copy() for plane in self._hidden))
        _paste(result, protected, changed, _whole(protected))
        for window, cells in _windows(carrying, protected, self._model.cell):
            _paste(result, self._drawn(clear, protected, window), cells, window)
        return result

    def _drawn(self, clear: Planes, protected: Planes, window: Window) -> Planes:
        """A part of the picture with latents in all its cells."""
        assert self._rotations is not None  # noqa: S101  (for the type checker)
        model, (top, bottom, left, right) = self._model, window
        rows, columns = model.grid(bottom - top, right - left)
        first_row, first_column = top // model.cell, left // model.cell
        cells = np.s_[:, first_row : first_row + rows, first_column : first_column + columns]
        part = _cropped(protected, window)
        latents = model.analyse(_cropped(clear, window), part)
        return model.hide(part, self._rotations.turn(latents, cells))


def _filled(original: Planes, protected: Planes, lacking: Cells) -> Planes:
    """The original where the protected picture lacks detail, elsewhere that picture: nothing to recover."""
    filled = Planes(*(plane.copy() for plane in protected))
    _paste(filled, original, lacking, _whole(protected))
    return filled


def _whole(planes: Planes) -> Window:
    height, width = planes.luma_hw.shape
    return 0, height, 0, width


def _with_beacon(lacking: Cells) -> Cells:
    carrying = lacking.copy()
    carrying[: BEACON[0], : BEACON[1]] = True
    return carrying


def _paste(onto: Planes, new: Planes, cells: Cells, window: Window) -> None:
    """Copy the marked cells of 16 pixels inside the window from ``new``, which shows just the window."""
    top, bottom, left, right = window
    mask = cells[
        top // CELL_MULTIPLE : -(-bottom // CELL_MULTIPLE), left // CELL_MULTIPLE : -(-right // CELL_MULTIPLE)
    ]
    for whole, part, half in zip(onto, new, (1, 2, 2), strict=True):
        target = whole[top // half : bottom // half, left // half : right // half]
        pixels = mask.repeat(CELL_MULTIPLE // half, 0).repeat(CELL_MULTIPLE // half, 1)
        np.copyto(target, part, where=pixels[: target.shape[0], : target.shape[1]])


def changed_cells(before: Planes, after: Planes) -> Cells:
    """Which cells of 16x16 pixels differ in any sample: [ceil(H/16), ceil(W/16)]."""
    changed = _any_by_cell(before.luma_hw != after.luma_hw, CELL_MULTIPLE)
    for one, two in ((before.cb_hw, after.cb_hw), (before.cr_hw, after.cr_hw)):
        changed |= _any_by_cell(one != two, CELL_MULTIPLE // 2)
    return changed


def _any_by_cell(different: npt.NDArray[np.bool_], cell: int) -> Cells:
    height, width = different.shape
    padded = np.pad(different, ((0, -height % cell), (0, -width % cell)))
    rows, columns = padded.shape[0] // cell, padded.shape[1] // cell
    return np.asarray(padded.reshape(rows, cell, columns, cell).any((1, 3)))


def _cell_grid(planes: Planes) -> tuple[int, int]:
    height, width = planes.luma_hw.shape
    return -(-height // CELL_MULTIPLE), -(-width // CELL_MULTIPLE)


def _windows(cells: Cells, planes: Planes, model_cell: int) -> Iterator[tuple[Window, Cells]]:
    """Groups of marked cells that depend on nothing in common, each with the window it depends on."""
    if not cells.any():
        return
    side = 2 * -(-_HALO_CELLS * model_cell // CELL_MULTIPLE) + 1
    reached = cv2.dilate(cells.view(np.uint8), np.ones((side, side), np.uint8))
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(reached, connectivity=8)
    height, width = planes.luma_hw.shape
    for label, (left, top, columns, rows, _) in enumerate(np.asarray(boxes).tolist()):
        group = cells & (np.asarray(labels) == label)
        if label and group.any():
            bottom = min(height, (top + rows) * CELL_MULTIPLE)
            right = min(width, (left + columns) * CELL_MULTIPLE)
            yield (top * CELL_MULTIPLE, bottom, left * CELL_MULTIPLE, right), group


def _cropped(planes: Planes, window: Window) -> Planes:
    top, bottom, left, right = window
    half = np.s_[top // 2 : bottom // 2, left // 2 : right // 2]
    return Planes(planes.luma_hw[top:bottom, left:right], planes.cb_hw[half], planes.cr_hw[half])


_SILENT, _CARRYING = 0.2, 0.4
"""Length of revealed latents, of what was hidden: measured 0 to 0.08 without, 0.4 to 0.65 with, at CRF 23."""

_MAX_ROTATIONS = 8
_MAX_ROTATION_BYTES = 256 * 1024 * 1024
"""Of neighbouring segments, among which a reader looks for the one that fits; fewer than 8 from 4K on."""


class PixelReader:
    """The investigator's side. Keeps the rotations of the last keys. Not for two threads."""

    def __init__(self, model: PixelModel) -> None:
        self._model = model
        # By key and grid, the least recently used first. A key is held here, so nothing else gets its id.
        self._drawn: dict[tuple[int, tuple[int, int]], tuple[PixelKeys, Rotations]] = {}

    def turn_back(self, revealed: Latents, keys: PixelKeys) -> Latents:
        """Revealed latents under one key, as the codec left them."""
        return self._rotations(keys, (revealed.shape[1], revealed.shape[2])).turn_back(revealed)

    def _rotations(self, keys: PixelKeys, grid: tuple[int, int]) -> Rotations:
        place = id(keys), grid
        held = self._drawn.pop(place, None)
        rotations = Rotations(keys.pixel_stream(), self._model.channels, *grid) if held is None else held[1]
        self._drawn[place] = keys, rotations
        most = min(_MAX_ROTATIONS, max(1, _MAX_ROTATION_BYTES // rotations.num_bytes))
        while len(self._drawn) > most:
            del self._drawn[next(iter(self._drawn))]
        return rotations

    def reveal(self, received: ProtectedFrame) -> Latents:
        """Turned latents, before any key."""
        return self._model.reveal(_planes(received))

    def fit(self, latents: Latents) -> float:
        """See `key_fit`."""
        return key_fit(latents, self._model.cell)

    def restore(self, received: ProtectedFrame, revealed: Latents, latents: Latents) -> ClearFrame:
        """An approximation of the original, from latents before and after `turn_back`.

        Generated pixels: never evidence.
        """
        before = _planes(received)
        restored = self._model.restore(before, revealed, latents)
        shares = _carried(revealed, self._model.cell, before.luma_hw.shape)
        luma, cb, cr = (_mixed(*pair, shares) for pair in zip(before, restored, strict=True))
        return ClearFrame(luma, cb, cr, received.time_us)


def _carried(revealed: Latents, cell: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """How far each pixel [H, W] lies in or beside cells that carried latents, 0..1."""
    length = np.linalg.norm(revealed, axis=0) / np.sqrt(len(revealed))
    by_cell = np.clip((length - _SILENT) / (_CARRYING - _SILENT), 0, 1).astype(np.float32)
    around = cv2.dilate(by_cell, np.ones((3, 3), np.uint8))
    enlarged = cv2.resize(around, None, fx=cell, fy=cell, interpolation=cv2.INTER_LINEAR)
    return np.asarray(enlarged[: shape[0], : shape[1]], np.float32)


def _mixed(received: Plane, restored: Plane, shares: npt.NDArray[np.float32]) -> Plane:
    share = cv2.resize(shares, received.shape[::-1], interpolation=cv2.INTER_AREA)
    change = restored.astype(np.float32) - received
    return np.asarray(np.rint(received + share * change), np.uint8)


def key_fit(latents: Latents, cell: int) -> float:
    """How surely latents were turned back with the right key: `coherence` of all cells or of the beacon's.

    Where little else carries, the picture's own detail in the other cells would drown the beacon.

    Args:
        latents: turned back, [channels, rows, columns].
        cell: luma pixels on a side of one of their cells.
    """
    rows, columns = (side * CELL_MULTIPLE // cell for side in BEACON)
    return max(coherence(latents), coherence(latents[:, :rows, :columns]))


def coherence(latents: Latents) -> float:
    """How far neighbouring cells agree, in standard deviations of unrelated directions.

    Under the right key latents vary slowly across the picture. Under any other key every cell has its own
    uniform direction, whatever its length: an inner product of neighbours then has mean 0 and variance
    ``|a|^2 |b|^2 / C``. Cells that carry nothing come back short and hardly count.
    """
    channels = latents.shape[0]
    length = np.linalg.norm(latents, axis=0)
    # A cell of ours has length sqrt(C); a longer one is the picture's own detail.
    bounded = latents * (np.minimum(1.0, np.sqrt(channels) / np.maximum(length, 1e-6)))
    square = np.square(bounded).sum(0)
    together = (bounded[:, :, 1:] * bounded[:, :, :-1]).sum() + (bounded[:, 1:] * bounded[:, :-1]).sum()
    # Pairs that share a cell are uncorrelated under a wrong key, so the variances add.
    variance = ((square[:, 1:] * square[:, :-1]).sum() + (square[1:] * square[:-1]).sum()) / channels
    return float(together / np.sqrt(max(float(variance), 1e-12)))
