"""Full-size patches of the background, one a frame: for what a low-resolution look is too coarse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analytics.elf.geometry import Boxes
from analytics.elf.types import Tile

_NEVER = -(1 << 30)
_LEAST_CELLS = 2
_MOST_PATIENCE = 3  # frames that a patch waits for one that it does not make longer


class Sweep:
    """Knows when each cell was last sent at full size, and proposes the patch that has waited longest."""

    def __init__(self, cell: int, share: float) -> None:
        self._cell, self._share = cell, share
        self._seen = np.zeros((0, 0), np.int64)
        self._side = _LEAST_CELLS
        self._waited = 0

    @property
    def must(self) -> bool:
        """The patch is to be sent now, though the frame takes longer for it."""
        return self._waited >= _MOST_PATIENCE

    def offered(self, sent: bool) -> None:
        """Whether the patch was sent."""
        self._waited = 0 if sent else self._waited + 1

    def resize(self, frame_wh: tuple[int, int]) -> None:
        """Forget everything; frames are of this size now."""
        shape = (-(-frame_wh[1] // self._cell), -(-frame_wh[0] // self._cell))
        self._seen = np.full(shape, _NEVER)
        side = round((self._share * shape[0] * shape[1]) ** 0.5)
        self._side = min(max(side, _LEAST_CELLS), *shape)

    def patch(self) -> Boxes:
        """[1, 4] in pixels, or [0, 4] where sweeping is off; may reach beyond the frame's edge."""
        if not self._share:
            return np.zeros((0, 4))
        rows, columns = self._seen.shape
        row, column = divmod(int(self._seen.argmin()), columns)
        top, left = min(row, rows - self._side), min(column, columns - self._side)
        return self._cell * np.array([[left, top, left + self._side, top + self._side]], np.float64)

    def sent(self, frame_index: int, tiles: Sequence[Tile]) -> None:
        """These tiles are sent with a frame; cells wholly within one at full size are seen."""
        if not self._share:
            return
        cell, seen = self._cell, self._seen
        rows, columns = seen.shape
        for tile in tiles:
            if tile.scale == 1:
                # the last row and column may be smaller than the others
                bottom, right = tile.bottom // cell, tile.right // cell
                bottom = rows if tile.bottom > (rows - 1) * cell else bottom
                right = columns if tile.right > (columns - 1) * cell else right
                seen[-(-tile.top // cell) : bottom, -(-tile.left // cell) : right] = frame_index
