"""Hiding the original in the protected picture's pixels under a segment's key, and reading it back.

The hiding side keeps still areas still: where the protected picture did not change since the
picture before, the samples published before are repeated, so that the H.264 encoder skips them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from base.frames import ClearFrame, ProtectedFrame
from codec.rotations import Rotations
from keys.schedule import PixelStream
from models.pixels import CELL_MULTIPLE, Latents, PixelModel, Planes

_HALO_CELLS = 9
"""How far a cell's pattern can depend on its neighbours: eight 3x3 convolutions, and one to spare."""


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

        ``protected`` is looked at again with the next picture: its samples must not be written to.
        """
        planes = _planes(protected)
        if self._rotations is None or self._base is None or self._hidden is None:
            rows, columns = self._model.grid(protected.height, protected.width)
            assert self._keys is not None, "begin comes first"  # noqa: S101  (a caller's bug, not an input)
            self._rotations = Rotations(self._keys.pixel_stream(), self._model.channels, rows, columns)
            self._hidden = self._drawn(_planes(clear), planes)
        else:
            changed = changed_cells(self._base, planes)
            if changed.any():
                self._hidden = self._redrawn(_planes(clear), planes, changed, self._hidden)
        self._base = planes
        return ProtectedFrame(*self._hidden, protected.time_us)

    def _drawn(self, clear: Planes, protected: Planes) -> Planes:
        assert self._rotations is not None  # noqa: S101  (for the type checker)
        latents = self._model.analyse(clear, protected)
        return self._model.hide(protected, self._rotations.turn(latents))

    def _redrawn(
        self, clear: Planes, protected: Planes, changed: npt.NDArray[np.bool_], before: Planes
    ) -> Planes:
        """``before`` with the changed cells of 16 pixels drawn anew; computes only their surroundings."""
        assert self._rotations is not None  # noqa: S101
        top, bottom, left, right = _window(changed, protected)
        model = self._model
        rows, columns = model.grid(bottom - top, right - left)
        first_row, first_column = top // model.cell, left // model.cell
        cells = np.s_[:, first_row : first_row + rows, first_column : first_column + columns]
        part = _cropped(protected, top, bottom, left, right)
        latents = model.analyse(_cropped(clear, top, bottom, left, right), part)
        drawn = model.hide(part, self._rotations.turn_part(latents, cells))
        result = Planes(*(plane.copy() for plane in before))
        mask = changed[
            top // CELL_MULTIPLE : -(-bottom // CELL_MULTIPLE),
            left // CELL_MULTIPLE : -(-right // CELL_MULTIPLE),
        ]
        for whole, new, half in zip(result, drawn, (1, 2, 2), strict=True):
            window = whole[top // half : bottom // half, left // half : right // half]
            pixels = mask.repeat(CELL_MULTIPLE // half, 0).repeat(CELL_MULTIPLE // half, 1)
            np.copyto(window, new, where=pixels[: window.shape[0], : window.shape[1]])
        return result


def changed_cells(before: Planes, after: Planes) -> npt.NDArray[np.bool_]:
    """Which cells of 16x16 pixels differ in any sample: [ceil(H/16), ceil(W/16)]."""
    changed = _any_by_cell(before.luma_hw != after.luma_hw, CELL_MULTIPLE)
    for one, two in ((before.cb_hw, after.cb_hw), (before.cr_hw, after.cr_hw)):
        changed |= _any_by_cell(one != two, CELL_MULTIPLE // 2)
    return changed


def _any_by_cell(different: npt.NDArray[np.bool_], cell: int) -> npt.NDArray[np.bool_]:
    height, width = different.shape
    padded = np.pad(different, ((0, -height % cell), (0, -width % cell)))
    rows, columns = padded.shape[0] // cell, padded.shape[1] // cell
    return np.asarray(padded.reshape(rows, cell, columns, cell).any((1, 3)))


def _window(changed: npt.NDArray[np.bool_], planes: Planes) -> tuple[int, int, int, int]:
    """Top, bottom, left, right in pixels: the changed cells with what they depend on, on cell borders."""
    halo = _HALO_CELLS * CELL_MULTIPLE
    rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
    height, width = planes.luma_hw.shape
    top, left = max(0, rows[0] * CELL_MULTIPLE - halo), max(0, columns[0] * CELL_MULTIPLE - halo)
    bottom = min(height, (rows[-1] + 1) * CELL_MULTIPLE + halo)
    right = min(width, (columns[-1] + 1) * CELL_MULTIPLE + halo)
    return int(top), int(bottom), int(left), int(right)


def _cropped(planes: Planes, top: int, bottom: int, left: int, right: int) -> Planes:
    half = np.s_[top // 2 : bottom // 2, left // 2 : right // 2]
    return Planes(planes.luma_hw[top:bottom, left:right], planes.cb_hw[half], planes.cr_hw[half])


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

    def restore(self, received: ProtectedFrame, revealed: Latents, latents: Latents) -> ClearFrame:
        """An approximation of the original, from latents before and after `turn_back`.

        Generated pixels: never evidence.
        """
        planes = self._model.restore(_planes(received), revealed, latents)
        return ClearFrame(*planes, received.time_us)


def coherence(latents: Latents) -> float:
    """How far neighbouring cells agree, in standard deviations of unrelated directions.

    Under the right key latents vary slowly across the picture. Under any other key every cell has its own
    uniform direction, so the cosine between neighbours has mean 0 and variance 1/C.
    """
    channels = latents.shape[0]
    unit = latents / np.maximum(np.linalg.norm(latents, axis=0), 1e-6)
    cosines = [(unit[:, :, 1:] * unit[:, :, :-1]).sum(0).ravel(), (unit[:, 1:] * unit[:, :-1]).sum(0).ravel()]
    together = np.concatenate(cosines)
    # Pairs that share a cell are uncorrelated under a wrong key, so the variances add.
    return float(together.mean() * np.sqrt(channels * len(together)))
