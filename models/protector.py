"""Clear frame in, protected frame out: the trained generator at run time."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from base.errors import UsageError
from base.frames import ClearFrame, ProtectedFrame
from models.card import WEIGHTS, ModelCard, read_card, read_weights
from models.pyramid import GATE_ONE, GatedPyramid
from models.redraw import Redrawer
from models.session import Array, Session, open_session

CARD = "protector-v1.json"
GATES_GRAPH = "protector-v1-gates.onnx"
REDRAW_GRAPH = "protector-v1-redraw.onnx"


@dataclass(frozen=True, slots=True)
class GateMap:
    """What was let through.

    ``gates`` is [bands, H/8, W/8], 0 (destroyed) to GATE_ONE (kept), finest band first.
    """

    gates: Array

    def cell_size(self) -> npt.NDArray[np.int32]:
        """Smallest detail left per 8x8 block in pixels, [H/8, W/8]; 1 where the finest band passes."""
        shut = np.cumprod(self.gates == 0, axis=0).sum(axis=0, dtype=np.int32)
        return np.asarray(np.left_shift(1, shut), np.int32)

    def open_share(self) -> float:
        """Mean openness of all gates, 0..1."""
        return float(self.gates.mean()) / GATE_ONE


class _Size:
    """Buffers and sessions for one picture size, padded to the network's multiple."""

    def __init__(
        self, height: int, width: int, card: ModelCard, graphs: tuple[bytes, bytes], threads: int
    ) -> None:
        multiple = card.size_multiple
        padded = (-(-height // multiple) * multiple, -(-width // multiple) * multiple)
        self.height, self.width = height, width
        self.luma = np.zeros((1, 1, *padded), np.uint8)
        self.chroma = np.zeros((1, 2, padded[0] // 2, padded[1] // 2), np.uint8)
        self.kept_luma = np.zeros_like(self.luma)
        self.kept_chroma = np.zeros_like(self.chroma)
        self.luma_pyramid = GatedPyramid(*padded, card.bands)
        self.chroma_pyramid = GatedPyramid(padded[0] // 2, padded[1] // 2, card.bands - 1)
        self.held: tuple[Array, Array] | None = None  # gates and thresholds in force
        self.newest: Array | None = None  # gates as the network gave them last
        self.age = 0  # pictures since then
        self.gate_net: Session = open_session(graphs[0], (self.luma, self.chroma), threads=threads)
        self.redraw = Redrawer(graphs[1], (self.luma, self.chroma), threads)

    def load(self, frame: ClearFrame) -> None:
        """Copy the planes in and repeat their last row and column over the padding."""
        for buffer, plane in (
            (self.luma[0, 0], frame.luma_hw),
            (self.chroma[0, 0], frame.cb_hw),
            (self.chroma[0, 1], frame.cr_hw),
        ):
            height, width = plane.shape
            buffer[:height, :width] = plane
            buffer[height:, :width] = plane[-1]
            buffer[:, width:] = buffer[:, width - 1 : width]


def _widened(gates: Array) -> Array:
    """Every block as shut as the most shut of its eight neighbours: [1, bands, h, w]."""
    kernel = np.ones((3, 3), np.uint8)
    return np.stack([np.asarray(cv2.erode(band, kernel), np.uint8) for band in gates[0]])[None]


class Protector:
    """The generator. Frames of any even size; safe to call from several threads, one frame at a time.

    Guards nothing by itself: the caller decides where the clear frame goes. Deterministic for
    the same weights, backend and input (with ``refresh`` above 1: the same inputs so far).
    """

    def __init__(self, card: ModelCard, graphs: tuple[bytes, bytes], threads: int, refresh: int = 1) -> None:
        if refresh < 1:
            raise UsageError(f"refresh: expected 1 or more pictures, got {refresh}")
        self._card = card
        self._refresh = refresh
        self._graphs = graphs
        self._threads = threads
        self._size: _Size | None = None
        self._lock = threading.Lock()

    @property
    def model_id(self) -> bytes:
        """8 bytes that name the weights; written to every segment's header."""
        return self._card.model_id

    @property
    def name(self) -> str:
        """Name on the card."""
        return self._card.name

    @property
    def backend(self) -> str:
        """Run-time in use; ``not chosen yet`` before the first frame."""
        return self._size.gate_net.name if self._size else "not chosen yet"

    def protect(self, frame: ClearFrame) -> ProtectedFrame:
        """The cartoon of ``frame``, same size and time."""
        return self.protect_with_map(frame)[0]

    def protect_with_map(self, frame: ClearFrame) -> tuple[ProtectedFrame, GateMap]:
        """The cartoon and the map of what was destroyed (for audits and pictures)."""
        with self._lock:
            size = self._sized(frame.height, frame.width)
            size.load(frame)
            gates, thresholds = self._maps(size)
            size.kept_luma[0, 0] = size.luma_pyramid(size.luma[0, 0], gates[0], thresholds[0])
            for index in range(2):
                kept = size.chroma_pyramid(size.chroma[0, index], gates[0, 1:], thresholds[0, 1:])
                size.kept_chroma[0, index] = kept
            luma, cb, cr = size.redraw(size.kept_luma, size.kept_chroma)
            rows, columns = frame.height, frame.width
            half = np.s_[: rows // 2, : columns // 2]
            drawn = ProtectedFrame(luma[:rows, :columns], cb[half], cr[half], frame.time_us)
            return drawn, GateMap(gates[0, :, : -(-rows // 8), : -(-columns // 8)].copy())

    def _maps(self, size: _Size) -> tuple[Array, Array]:
        """Gates and thresholds for the picture loaded; see ``refresh`` of :func:`load_protector`."""
        if self._refresh == 1:
            gates, thresholds = size.gate_net.run(size.luma, size.chroma)
            return gates, thresholds
        if size.held is None or size.age >= self._refresh:
            gates, thresholds = size.gate_net.run(size.luma, size.chroma)
            safe = gates if size.newest is None else np.minimum(gates, size.newest)
            size.newest, size.age = gates, 0
            size.held = (_widened(safe), thresholds)
        size.age += 1
        return size.held

    def _sized(self, height: int, width: int) -> _Size:
        if self._size is None or (self._size.height, self._size.width) != (height, width):
            self._size = _Size(height, width, self._card, self._graphs, self._threads)
        return self._size


def load_protector(*, folder: Path = WEIGHTS, threads: int | None = None, refresh: int = 1) -> Protector:
    """The protector shipped with veilcam, checked against its card.

    Args:
        folder: where card and graphs lie.
        threads: for one frame; all cores (at most 4) if None.
        refresh: look for what must be hidden in every n-th picture only. Above 1 the pictures are taken
            as a video: a block stays as coarse as the last two looks asked for, and so do its eight
            neighbours, so that a face may move 8 pixels between two looks. With 1 every picture
            stands for itself.

    Raises:
        AuthenticationFailed: a weights file is not the one on the card.
        FormatError: the card cannot be read.
    """
    card = read_card(folder / CARD)
    graphs = (read_weights(card, GATES_GRAPH, folder), read_weights(card, REDRAW_GRAPH, folder))
    return Protector(card, graphs, threads or min(4, os.cpu_count() or 1), refresh)
