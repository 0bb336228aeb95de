"""Run-time of the keyed pixel path's four networks; knows nothing of keys.

Between `analyse` and `hide`, and between `reveal` and `restore`, the caller turns the latents
with the segment's rotations (codec/pixel_path.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from base.errors import UsageError
from models.card import WEIGHTS, ModelCard, read_card, read_weights
from models.phases import add_phases
from models.session import OnnxRuntimeSession

Plane = npt.NDArray[np.uint8]
Latents = npt.NDArray[np.float32]

SETTINGS = ("low", "high")
CELL_MULTIPLE = 16
"""Planes are padded to a multiple of this many luma pixels: the larger of the two cell sizes."""


class Planes(NamedTuple):
    """4:2:0 samples of any even size: luma [H, W], cb and cr [H/2, W/2]."""

    luma_hw: Plane
    cb_hw: Plane
    cr_hw: Plane


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Planes as the graphs take them: luma [1, 1, H, W], chroma [1, 2, H/2, W/2], padded."""

    luma: Plane
    chroma: Plane


def _loaded(planes: Planes) -> _Loaded:
    height, width = planes.luma_hw.shape
    down, right = -height % CELL_MULTIPLE, -width % CELL_MULTIPLE
    luma = np.pad(planes.luma_hw, ((0, down), (0, right)), mode="edge")
    half = ((0, 0), (0, down // 2), (0, right // 2))
    chroma = np.pad(np.stack([planes.cb_hw, planes.cr_hw]), half, mode="edge")
    return _Loaded(luma[None, None], chroma[None])


class PixelModel:
    """One setting's networks; loads each graph when it is first needed, so a camera never the receiver's."""

    def __init__(self, card: ModelCard, folder: Path, threads: int) -> None:
        self._card = card
        self._folder = folder
        self._threads = threads
        self._sessions: dict[str, OnnxRuntimeSession] = {}
        network = card.described["network"]
        self.setting = str(network["setting"])
        self.channels = int(network["channels"])
        self.cell = int(network["cell"])

    @property
    def model_id(self) -> bytes:
        """8 bytes that name the weights; in the header of every segment that was hidden with them."""
        return self._card.model_id

    @property
    def name(self) -> str:
        """Name on the card."""
        return self._card.name

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of cells of a picture, padding included."""
        padded = height + -height % CELL_MULTIPLE, width + -width % CELL_MULTIPLE
        return padded[0] // self.cell, padded[1] // self.cell

    def analyse(self, clear: Planes, protected: Planes) -> Latents:
        """What the protected picture lacks: [channels, rows, columns], every cell on a sphere."""
        one, two = _loaded(clear), _loaded(protected)
        (latents,) = self._session("analyse").run(one.luma, one.chroma, two.luma, two.chroma)
        return np.asarray(latents[0], np.float32)

    def hide(self, protected: Planes, turned: Latents) -> Planes:
        """The protected planes with turned latents in them; same size, freshly allocated."""
        loaded = _loaded(protected)
        (change,) = self._session("hide").run(loaded.luma, loaded.chroma, turned[None])
        area = self.cell**2
        by_plane = zip(
            (loaded.luma[0, 0], *loaded.chroma[0]), np.split(change[0], (area, area * 5 // 4)), strict=True
        )
        luma, *chroma = (
            add_phases(plane, phases, np.empty(plane.shape, np.int16)) for plane, phases in by_plane
        )
        return _cut(luma[None, None], np.stack(chroma)[None], protected)

    def reveal(self, received: Planes) -> Latents:
        """Turned latents as the codec left them, [channels, rows, columns]."""
        loaded = _loaded(received)
        (latents,) = self._session("reveal").run(loaded.luma, loaded.chroma)
        return np.asarray(latents[0], np.float32)

    def restore(self, received: Planes, revealed: Latents, latents: Latents) -> Planes:
        """The clear planes, approximately, from received ones and latents before and after turning back."""
        loaded = _loaded(received)
        run = self._session("restore").run
        luma, chroma = run(loaded.luma, loaded.chroma, revealed[None], latents[None])
        return _cut(luma, chroma, received)

    def _session(self, part: str) -> OnnxRuntimeSession:
        if part not in self._sessions:
            graph = read_weights(self._card, f"{self._card.name}-{part}.onnx", self._folder)
            self._sessions[part] = OnnxRuntimeSession(graph, self._threads)
        return self._sessions[part]


def _cut(luma: Plane, chroma: Plane, like: Planes) -> Planes:
    height, width = like.luma_hw.shape
    half = np.s_[: height // 2, : width // 2]
    return Planes(luma[0, 0, :height, :width], chroma[0, 0][half], chroma[0, 1][half])


def load_pixel_model(setting: str, *, folder: Path = WEIGHTS, threads: int = 1) -> PixelModel:
    """The networks of setting ``low`` or ``high`` that are shipped with veilcam.

    Raises:
        UsageError: another setting.
        FormatError: the card cannot be read.
        AuthenticationFailed: (when first used) a graph is not the one on the card.
    """
    if setting not in SETTINGS:
        raise UsageError(f"pixel path: expected {' or '.join(SETTINGS)}, got {setting!r}")
    return PixelModel(read_card(folder / f"pixels-{setting}-v1.json"), folder, threads)
