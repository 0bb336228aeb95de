"""The seam to recovery from protected pixels: anything that hides and reveals with a key can be measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from base.frames import ClearFrame, ProtectedFrame


class PixelPath(Protocol):
    """Protected pictures that hide the original under a key, and the way back.

    One object belongs to one setting (``low``, ``high``) and to one set of weights; it keeps no state
    between two calls. Frames are consecutive pictures of one clip.
    """

    @property
    def name(self) -> str:
        """For reports: setting and weights."""

    @property
    def key_bytes(self) -> int:
        """Length of a key."""

    def hide(self, frames: Iterable[ClearFrame], key: bytes) -> Iterator[ProtectedFrame]:
        """Protected pictures with the original hidden in them, to be coded as they are."""

    def reveal(self, frames: Iterable[ProtectedFrame], key: bytes) -> Iterator[ClearFrame]:
        """What comes back out of decoded pictures with this key, right or wrong."""
