"""What the generator is asked to draw: a flat cartoon, and hardly anything of faces, plates and text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import cv2
import numpy as np
import numpy.typing as npt

from models.train.pictures import Image, resized, soft_ellipse


class Kind(Enum):
    """A sensitive region and how many cells of its height may remain.

    Measured on LFW: at 7 cells of face height a public recogniser still identifies at four
    times chance; at 3.5 it does not. Characters of a plate fill most of its height.
    """

    FACE = 3.5
    PLATE = 2.2
    TEXT = 2.0


@dataclass(frozen=True, slots=True)
class Region:
    """A sensitive box in pixels: left, top, width, height."""

    kind: Kind
    x: float
    y: float
    width: float
    height: float

    @property
    def cell(self) -> float:
        """Smallest detail that may remain, in pixels."""
        return self.height / self.kind.value

    def grown(self, share: float) -> Region:
        """The box with ``share`` of its size added on every side."""
        dx, dy = self.width * share, self.height * share
        return Region(self.kind, self.x - dx, self.y - dy, self.width + 2 * dx, self.height + 2 * dy)

    def transformed(self, scale: float, left: float, top: float) -> Region:
        """The box after scaling the picture and cutting ``left`` and ``top`` pixels off."""
        x, y = self.x * scale - left, self.y * scale - top
        return Region(self.kind, x, y, self.width * scale, self.height * scale)

    def clipped(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Integer left, top, right, bottom inside a picture; may be empty."""
        left, top = max(0, int(self.x)), max(0, int(self.y))
        right = min(width, int(np.ceil(self.x + self.width)))
        return left, top, right, min(height, int(np.ceil(self.y + self.height)))


def flat_cartoon(rgb_hwc: Image) -> Image:
    """Mean-shift filtered picture: flat areas, kept edges (Comaniciu & Meer 2002)."""
    return np.asarray(cv2.pyrMeanShiftFiltering(rgb_hwc, 6, 22), np.uint8)


_SKIN_RGB = np.array([158.0, 130.0, 118.0], np.float32)


def hide_regions(target: Image, source: Image, regions: list[Region]) -> None:
    """Replace every region of ``target`` by its few allowed cells; faces are pulled to one tone.

    The tone follows the picture's brightness, not the person, so skin colour goes too.
    """
    height, width = target.shape[:2]
    for region in regions:
        left, top, right, bottom = region.grown(0.2 if region.kind is Kind.FACE else 0.12).clipped(
            height, width
        )
        if right - left < 4 or bottom - top < 4:
            continue
        shape = (bottom - top, right - left)
        pooled = _pool(source[top:bottom, left:right], max(1.0, region.cell))
        if region.kind is Kind.FACE:
            tone = _SKIN_RGB * (0.35 + 0.65 * float(source.mean()) / 120)
            mask = soft_ellipse(*shape, (0.46, 0.48), max(1.0, shape[0] * 0.04))
            toned = 0.45 * pooled.astype(np.float32) + 0.55 * tone
            pooled = np.clip(target[top:bottom, left:right] * (1 - mask) + toned * mask, 0, 255).astype(
                np.uint8
            )
        target[top:bottom, left:right] = pooled


def _pool(patch: Image, cell: float) -> Image:
    height, width = patch.shape[:2]
    small = resized(patch, max(1, round(width / cell)), max(1, round(height / cell)))
    return resized(small, width, height)


def shut_bands(
    regions: list[Region], height: int, width: int, bands: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Which gates have to be shut, and how much each block counts.

    Band k carries detail of 2**k to 2**(k+1) pixels, so it is shut where 2**k is below the cell.

    Returns:
        [bands, height/8, width/8], 1 where detail must not pass; and [1, height/8, width/8], above 1 in
        small regions: without it their few blocks drown in those of large ones.
    """
    shut = np.zeros((bands, height // 8, width // 8), np.float32)
    importance = np.ones((1, height // 8, width // 8), np.float32)
    for region in regions:
        left, top, right, bottom = region.grown(0.12).clipped(height, width)
        if right <= left or bottom <= top:
            continue
        count = min(bands, max(1, int(np.ceil(np.log2(max(region.cell, 1.01))))))
        blocks = np.s_[top // 8 : -(-bottom // 8), left // 8 : -(-right // 8)]
        shut[:count][(slice(None), *blocks)] = 1
        weight = float(np.clip(160 / max(region.height, 1), 0.5, 8))
        importance[0][blocks] = np.maximum(importance[0][blocks], weight)
    return shut, importance
