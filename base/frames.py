"""Clear and protected pictures are different types, so that publishing a clear one is a type error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from base.errors import UsageError

Plane = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Picture:
    """Planar 8-bit 4:2:0, limited range: luma [H, W], cb and cr [H/2, W/2]; H and W even."""

    luma_hw: Plane
    cb_hw: Plane
    cr_hw: Plane
    time_us: int

    def __post_init__(self) -> None:
        height, width = self.luma_hw.shape
        if height % 2 or width % 2 or not height or not width:
            message = f"luma plane: expected even height and width, got {height}x{width}"
            raise UsageError(message)
        for name, plane in (("cb", self.cb_hw), ("cr", self.cr_hw)):
            if plane.shape != (height // 2, width // 2):
                message = f"{name} plane: expected {height // 2}x{width // 2}, got {plane.shape}"
                raise UsageError(message)

    @property
    def height(self) -> int:
        """Luma rows."""
        return int(self.luma_hw.shape[0])

    @property
    def width(self) -> int:
        """Luma columns."""
        return int(self.luma_hw.shape[1])


@dataclass(frozen=True, slots=True)
class ClearFrame(_Picture):
    """What the sensor saw. Never leaves the camera process or an authorised decode."""


@dataclass(frozen=True, slots=True)
class ProtectedFrame(_Picture):
    """What the protector drew. May be published.

    Attributes:
        lost_octaves: how much coarser than the original each block of 16x16 luma samples was drawn,
            [ceil(H/16), ceil(W/16)], as far as known. The picture itself shows as much.
    """

    lost_octaves: npt.NDArray[np.float32] | None = None
