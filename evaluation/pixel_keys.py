"""The product's pixel path behind the seam of pixel_path.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from base.frames import ClearFrame, ProtectedFrame
from codec.pixel_path import PixelHider, PixelReader
from evaluation.camera import Camera
from evaluation.pixel_path import PixelPath
from keys import SecretBytes, SegmentKeys
from models.card import WEIGHTS
from models.pixels import SETTINGS, PixelModel, load_pixel_model


class KeyedPixels:
    """One setting of the pixel path; a key is a segment key, and a clip counts as one segment."""

    key_bytes = 32

    def __init__(self, model: PixelModel, camera: Camera) -> None:
        self._model = model
        self._camera = camera

    @property
    def name(self) -> str:
        """The card's name and the first digits of its model id."""
        return f"{self._model.name} {self._model.model_id.hex()[:8]}"

    def hide(self, frames: Iterable[ClearFrame], key: bytes) -> Iterator[ProtectedFrame]:
        """See PixelPath."""
        hider = PixelHider(self._model)
        hider.begin(SegmentKeys(SecretBytes(key)))
        for clear, protected in self._camera.beside(frames):
            yield hider.hide(clear, protected)

    def reveal(self, frames: Iterable[ProtectedFrame], key: bytes) -> Iterator[ClearFrame]:
        """See PixelPath."""
        reader = PixelReader(self._model)
        keys = SegmentKeys(SecretBytes(key))
        for frame in frames:
            revealed = reader.reveal(frame)
            yield reader.restore(frame, revealed, reader.turn_back(revealed, keys))


def installed_pixel_paths(weights: Path | None, camera: Camera) -> dict[str, PixelPath]:
    """Every setting whose card lies among the weights; none where there is no pixel path."""
    folder = weights or WEIGHTS
    return {
        setting: KeyedPixels(load_pixel_model(setting, folder=folder), camera)
        for setting in SETTINGS
        if (folder / f"pixels-{setting}-v1.json").exists()
    }
