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
from models.background import Background, with_floor
from models.canvas import Canvas, Graphs
from models.card import WEIGHTS, ModelCard, read_card, read_weights
from models.drawn_face import read_drawn_face
from models.object_finder import read_object_finder
from models.pyramid import GATE_ONE
from models.session import Array
from models.strength import Strength
from models.video import Video

CARD = "protector-v3.json"
GATES_GRAPH = "protector-v3-gates.onnx"
GATES_INT8_GRAPH = "protector-v3-gates-int8.onnx"


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

    def lost_octaves(self) -> npt.NDArray[np.float32]:
        """How much coarser than the original each 16x16 block was drawn: [H/16, W/16], 0 to the bands."""
        num_bands, rows, columns = self.gates.shape
        open_sum = self.gates.sum(0, dtype=np.uint16)
        even = cv2.copyMakeBorder(open_sum, 0, rows % 2, 0, columns % 2, cv2.BORDER_REPLICATE)
        size = (even.shape[1] // 2, even.shape[0] // 2)
        by_block = cv2.resize(even.astype(np.float32), size, interpolation=cv2.INTER_AREA)
        return np.asarray(num_bands - by_block / GATE_ONE, np.float32)

    def open_share(self) -> float:
        """Mean openness of all gates, 0..1."""
        return float(self.gates.mean()) / GATE_ONE


class Protector:
    """The generator. Frames of any even size; safe to call from several threads, one frame at a time.

    Guards nothing by itself: the caller decides where the clear frame goes. Deterministic for
    the same weights, backend and input (of a video: the same inputs so far).
    """

    def __init__(
        self,
        card: ModelCard,
        graphs: Graphs,
        threads: int,
        refresh: int = 1,
        *,
        hold: bool = False,
        strength: Strength = Strength.STANDARD,
        background: Background = Background.COARSE,
    ) -> None:
        if refresh < 1:
            raise UsageError(f"refresh: expected 1 or more pictures, got {refresh}")
        self._card = card
        self._graphs = graphs
        self._threads = threads
        self._refresh = refresh
        self._hold = hold
        self.strength = strength
        self._background = background
        self._canvas: Canvas | None = None
        self._video: Video | None = None
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
        return self._canvas.gate_net.name if self._canvas else "not chosen yet"

    def protect(self, frame: ClearFrame, *, renew: bool = False) -> ProtectedFrame:
        """The cartoon of ``frame``, same size and time.

        With ``renew`` all of it is drawn anew: for the pictures that the encoder codes by themselves.
        """
        return self.protect_with_map(frame, renew=renew)[0]

    def protect_with_map(self, frame: ClearFrame, *, renew: bool = False) -> tuple[ProtectedFrame, GateMap]:
        """The cartoon and the map of what was destroyed (for audits and pictures)."""
        with self._lock:
            canvas = self._sized(frame.height, frame.width)
            canvas.load(frame)
            if self._video is None:
                look = canvas.look()
                gates, thresholds = with_floor(look.gates, look.thresholds, look.floor)
                drawn = canvas.draw(gates, thresholds)
                planes = canvas.with_faces(drawn, look.faces, gates, canvas.tone(look.faces))
            else:
                planes, gates = self._video.draw(frame.time_us, renew=renew)
            rows, columns = frame.height, frame.width
            half = np.s_[: rows // 2, : columns // 2]
            gate_map = GateMap(gates[0, :, : -(-rows // 8), : -(-columns // 8)].copy())
            protected = ProtectedFrame(
                planes.luma[:rows, :columns],
                planes.cb[half],
                planes.cr[half],
                frame.time_us,
                gate_map.lost_octaves(),
            )
            return protected, gate_map

    def _sized(self, height: int, width: int) -> Canvas:
        canvas = self._canvas
        if canvas is None or (canvas.height, canvas.width) != (height, width):
            canvas = self._canvas = Canvas(
                height,
                width,
                self._card,
                self._graphs,
                self._threads,
                strength=self.strength,
                background=self._background,
            )
            is_video = self._refresh > 1 or self._hold
            self._video = Video(canvas, refresh=self._refresh, hold=self._hold) if is_video else None
        return canvas


def load_protector(
    *,
    folder: Path = WEIGHTS,
    threads: int | None = None,
    refresh: int = 1,
    hold: bool = False,
    strength: Strength = Strength.STANDARD,
    background: Background = Background.COARSE,
) -> Protector:
    """The protector shipped with veilcam, checked against its card.

    Args:
        folder: where card and graphs lie.
        threads: for one frame; all cores (at most 4) if None.
        refresh: look for what must be hidden in every n-th picture only. Above 1 the pictures are taken
            as a video: a block stays as coarse as the last looks asked for, and so do its eight
            neighbours, so that a face may move 8 pixels between two looks. With 1 every picture
            stands for itself.
        hold: the pictures are a video, and 16x16 blocks that have not changed keep their pixels: several
            times faster and cheaper to code with a fixed camera. A held block repeats what was shown
            before and is drawn anew when anything in it must be shut more than it was. All is drawn anew
            when ``protect`` is asked to, and every 10 seconds.
        strength: how much is destroyed; see :class:`models.strength.Strength`.
        background: what becomes of everything but people and vehicles.

    Raises:
        AuthenticationFailed: a weights file is not the one on the card.
        FormatError: the card cannot be read.
    """
    card = read_card(folder / CARD)
    has_int8 = GATES_INT8_GRAPH in card.files
    graphs = Graphs(
        read_weights(card, GATES_GRAPH, folder),
        read_drawn_face(folder),
        read_object_finder(folder),
        read_weights(card, GATES_INT8_GRAPH, folder) if has_int8 else None,
    )
    threads = threads or min(4, os.cpu_count() or 1)
    return Protector(card, graphs, threads, refresh, hold=hold, strength=strength, background=background)
