"""Which parts of a fixed camera's picture have changed since they were drawn last.

Every 16x16 block (the encoder's macroblock) keeps a reference: what it looked like when it was drawn. It
counts as changed when a 4x4 cell or the whole block has moved away from that, in luma or in a colour, by
more than noise explains. The reference does not follow while a block is held, so that slow drift adds up
until it is seen. The noise is measured from picture to picture as the median over the blocks; a cap keeps
a shaking camera or a cloud from raising the limits so far that people pass below them.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from models.session import Array

BLOCK = 16
"""Side in luma pixels of the blocks that are held or drawn."""
_CELL = 4
_SHARE = BLOCK // _CELL
Mask = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float32]

# Limits in grey levels on the change of a cell's and of a block's mean: at least, at most. First luma's.
CELL_LIMITS = ((4.0, 12.0), (4.0, 8.0))
BLOCK_LIMITS = ((1.25, 2.5), (1.5, 2.5))
SEEN_LEVELS, BACKGROUND_LEVELS = 1, 12
"""Grey levels by which no sample of a block may differ from what is shown, where it shall stay shown: where
the finest detail passes, and where none does. Such changes are noise, leaves, and the edge of a shadow. Of
three fixed-camera clips they took a fifteenth of the bits. With 4 instead of 1, keypoints of people close
up suffer."""
_DEVIATIONS = 5.0  # of noise that a limit lies above
_MEAN_TO_DEVIATION = 1.2533  # of a normal distribution's mean absolute value: sqrt(pi / 2)
_MEDIAN_TO_DEVIATION = 1.4826
_RISING_SHARE, _FALLING_SHARE = 0.05, 0.2  # of a new picture in the running noise


class ChangeFinder:
    """Compares pictures of one size with what was drawn. Not for two threads at once."""

    def __init__(self, height: int, width: int) -> None:
        """Height and width in luma pixels, multiples of 16."""
        self._rows, self._columns = height // BLOCK, width // BLOCK
        # Means of cells and of blocks; luma, cb and cr one below the other.
        self._cells = np.empty((3 * height // _CELL, width // _CELL), np.uint8)
        self._blocks = np.empty((3 * self._rows, self._columns), np.float32)
        self._before: tuple[Array, _Floats] | None = None
        self._reference: tuple[Array, _Floats] | None = None
        self._noise = np.zeros((2, 2))  # deviation of a change: [cell or block, luma or colour]
        self._num_measured = 0

    def changed(self, luma_hw: Array, chroma_chw: Array) -> Mask:
        """Blocks of this picture that must be drawn, [H/16, W/16]; all of them in the first.

        Args:
            luma_hw: [H, W].
            chroma_chw: [2, H/2, W/2].
        """
        height, width = len(self._cells) // 3, self._cells.shape[1]
        for part, plane in enumerate((luma_hw, *chroma_chw)):
            out = self._cells[part * height : (part + 1) * height]
            cv2.resize(plane, (width, height), dst=out, interpolation=cv2.INTER_AREA)
        _block_means(self._cells, self._blocks)
        limits = self.limits()  # a sudden change must not hide itself in the noise
        self._measure_noise()
        if self._reference is None:
            return np.ones((self._rows, self._columns), np.bool_)
        cells, blocks = self._reference
        largest = _largest(_distance(self._cells, cells)).reshape(3, self._rows, self._columns)
        moved = np.abs(self._blocks - blocks).reshape(largest.shape)
        cell_limits, block_limits = (limit.reshape(3, 1, 1) for limit in limits)
        return np.asarray(((largest > cell_limits) | (moved > block_limits)).any(0))

    def drawn(self, blocks: Mask) -> None:
        """Take the picture last looked at as the reference of these blocks, [H/16, W/16]."""
        if self._reference is None or blocks.all():
            self._reference = (self._cells.copy(), self._blocks.copy())
            return
        three = np.tile(blocks, (3, 1))
        np.copyto(self._reference[0], self._cells, where=three.repeat(_SHARE, 0).repeat(_SHARE, 1))
        np.copyto(self._reference[1], self._blocks, where=three)

    def limits(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Largest change of a cell and of a block that still counts as noise, for luma, cb and cr."""
        cells, blocks = (
            np.array([np.clip(_DEVIATIONS * noise[colour], *bounds[colour]) for colour in (0, 1, 1)])
            for noise, bounds in zip(self._noise, (CELL_LIMITS, BLOCK_LIMITS), strict=True)
        )
        return cells, blocks

    def _measure_noise(self) -> None:
        if self._before is None:
            self._before = (self._cells.copy(), self._blocks.copy())
            return
        self._num_measured += 1
        cells, blocks = self._before
        cell_means = _block_means(_distance(self._cells, cells), np.empty_like(self._blocks))
        moved = np.abs(self._blocks - blocks)
        for kind, (values, factor) in enumerate(
            ((cell_means, _MEAN_TO_DEVIATION), (moved, _MEDIAN_TO_DEVIATION))
        ):
            luma, cb, cr = (factor * _median(part) for part in values.reshape(3, -1))
            rise = np.array((luma, max(cb, cr))) - self._noise[kind]
            share = max(_RISING_SHARE, 1 / self._num_measured)
            self._noise[kind] += np.where(rise > 0, share, max(share, _FALLING_SHARE)) * rise
        np.copyto(cells, self._cells)
        np.copyto(blocks, self._blocks)


def _distance(first: Array, second: Array) -> Array:
    return np.asarray(cv2.absdiff(first, second), np.uint8)


def looks_alike(
    shown: tuple[Array, Array, Array], drawn: tuple[Array, Array, Array], finest_gates: Array
) -> Mask:
    """Blocks in which what was drawn differs little enough from what is shown: [H/16, W/16].

    Args:
        shown: luma [H, W], cb and cr [H/2, W/2].
        drawn: likewise, of the picture at hand.
        finest_gates: [H/8, W/8]; 0 where the finest detail is destroyed in both.
    """
    rows, columns = len(finest_gates) // 2, finest_gates.shape[1] // 2
    change = np.zeros((rows, columns), np.uint8)
    for old, new, side in zip(shown, drawn, (BLOCK, BLOCK // 2, BLOCK // 2), strict=True):
        by_block = cv2.absdiff(old, new).reshape(rows, side, columns, side)
        np.maximum(change, by_block.max(axis=(1, 3)), out=change)
    seen = finest_gates.reshape(rows, 2, columns, 2).max(axis=(1, 3)) > 0
    return np.asarray(change <= np.where(seen, SEEN_LEVELS, BACKGROUND_LEVELS), np.bool_)


def _block_means(cells: Array, out: _Floats) -> _Floats:
    size = out.shape[::-1]
    return np.asarray(
        cv2.resize(cells.astype(np.float32), size, dst=out, interpolation=cv2.INTER_AREA), np.float32
    )


def _median(values: _Floats) -> float:
    """The upper median; numpy's own takes ten times as long on small arrays."""
    middle = values.size // 2
    return float(np.partition(values, middle)[middle])


def _largest(cells: Array) -> Array:
    """Largest of every block's cells."""
    rows = np.maximum.reduce([cells[row::_SHARE] for row in range(_SHARE)])
    return np.asarray(np.maximum.reduce([rows[:, column::_SHARE] for column in range(_SHARE)]), np.uint8)
