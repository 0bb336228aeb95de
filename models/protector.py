"""Clear frame in, protected frame out: the trained generator at run time."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from base.errors import UsageError
from base.frames import ClearFrame, ProtectedFrame
from models.background import Background, BackgroundMemory, Floor, with_floor
from models.canvas import Canvas, Graphs, Planes, pasted
from models.card import WEIGHTS, ModelCard, read_card, read_weights
from models.changes import ChangeFinder, Mask, looks_alike
from models.drawn_face import read_drawn_face
from models.looks import LookMemory
from models.object_finder import read_object_finder
from models.places import PlaceMemory
from models.pyramid import GATE_ONE
from models.session import Array
from models.strength import Strength

CARD = "protector-v3.json"
GATES_GRAPH = "protector-v3-gates.onnx"
GATES_INT8_GRAPH = "protector-v3-gates-int8.onnx"

GATE_STEP = 16
"""Where blocks are held, gates are multiples of this, rounded down: a trembling answer changes nothing."""
FIND_FACES_EVERY = 2
"""Looks of a video while faces rest: what is found shuts the gates for four looks (models.looks). While one
moves every look must find it: a gate shut where it was does not help."""
FIND_OBJECTS_EVERY = 2
"""Looks of a video: what is missed for as long is drawn coarse, which hides no less."""
STILL_TONE = 6.0
"""Grey levels by which a drawn face may be lighter or darker than the picture asks for before it follows."""
MAX_HELD_S = 10.0
"""All of a picture is drawn anew at least this often, whatever the caller says."""
MAX_HELD_PICTURES = 600
"""The same where times stand still."""


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


class _Video:
    """What is remembered of the pictures before: what was found, and with ``hold`` what was drawn."""

    def __init__(self, canvas: Canvas, *, refresh: int, hold: bool) -> None:
        self._canvas = canvas
        self._looks = LookMemory(refresh)
        self._faces = PlaceMemory()
        self._background = BackgroundMemory()
        self._num_looks = 0
        self._tone = -math.inf
        self._finder = ChangeFinder(*canvas.padded) if hold else None
        self._last: Planes | None = None
        self._gates: Array | None = None  # with which every block was drawn
        self._floor: Floor | None = None  # likewise
        self._renewed_us = 0
        self._num_held = 0  # pictures since all was drawn

    def draw(self, time_us: int, *, renew: bool) -> tuple[Planes, Array]:
        """The loaded picture and the gates it was drawn with."""
        planes, gates = self._draw(time_us, renew=renew)
        return self._canvas.with_faces(planes, self._faces.in_force, gates, self._tone), gates

    def _look(self, *, renew: bool) -> None:
        find_faces = renew or self._faces.is_moving or self._num_looks % FIND_FACES_EVERY == 0
        # Not together with faces, so that no picture takes much longer than the others.
        find_objects = renew or self._background.in_force is None or self._num_looks % FIND_OBJECTS_EVERY == 1
        self._num_looks += 1
        look = self._canvas.look(find_faces=find_faces, find_objects=find_objects)
        self._looks.add(look.gates, look.thresholds)
        if look.floor is not None:
            self._background.add(look.floor)
        if find_faces:
            self._faces.add(look.faces)
            tone = self._canvas.tone(self._faces.in_force)
            if abs(tone - self._tone) > STILL_TONE:
                self._tone = tone

    def _draw(self, time_us: int, *, renew: bool) -> tuple[Planes, Array]:
        """Without faces."""
        canvas = self._canvas
        if self._finder is None:
            if self._looks.is_due(changing=True) or renew:
                self._look(renew=renew)
            gates, thresholds = with_floor(*self._looks.in_force, self._background.in_force)
            return canvas.draw(gates, thresholds), gates
        blocks = self._finder.changed(canvas.luma[0, 0], canvas.chroma[0])
        renew = renew or self._is_stale(time_us)
        if self._looks.is_due(changing=bool(blocks.any())) or renew:
            self._look(renew=renew)
        hidden, thresholds = self._looks.in_force
        hidden = hidden // GATE_STEP * GATE_STEP
        floor = self._background.in_force
        gates, thresholds = with_floor(hidden, thresholds, floor)
        if self._last is None or self._gates is None or renew:
            blocks[:] = True
            self._renewed_us, self._num_held = time_us, 0
            self._last, self._gates, self._floor = canvas.draw(gates, thresholds), gates, floor
        else:
            # A background that comes back may wait until something changes; what was found may not.
            urgent = _closing(hidden, self._gates) | _lowered(self._floor, floor)
            blocks = _dilated(blocks) | urgent
            self._num_held += 1
            if blocks.any():
                drawn = canvas.draw_over(self._last, blocks, gates, thresholds)
                shown = blocks
                if floor is not None:
                    # What was sharp must not stay for long.
                    finest = np.maximum(gates[0, 0], self._gates[0, 0])
                    shown = blocks & (urgent | ~looks_alike(self._last, drawn, finest))
                    drawn = pasted(self._last, drawn, shown)
                self._last = drawn
                cells = shown.repeat(2, 0).repeat(2, 1)
                self._gates = np.where(cells, gates, self._gates)
                if self._floor is not None and floor is not None:
                    self._floor = np.where(cells, floor, self._floor)
        self._finder.drawn(blocks)
        return self._last, self._gates

    def _is_stale(self, time_us: int) -> bool:
        age_s = (time_us - self._renewed_us) / 1e6
        return not 0 <= age_s < MAX_HELD_S or self._num_held >= MAX_HELD_PICTURES


def _closing(gates: Array, drawn: Array) -> Mask:
    """Blocks of 16x16 in which something must be shut more than it was drawn: [H/16, W/16]."""
    return _in_blocks(np.asarray((gates < drawn).any((0, 1)), np.bool_))


def _lowered(drawn: Floor | None, floor: Floor | None) -> Mask:
    """Blocks of 16x16 in which an object appeared that was drawn as background: [H/16, W/16]."""
    if drawn is None or floor is None:
        return np.zeros((1, 1), np.bool_)
    return _in_blocks(floor < drawn)


def _in_blocks(cells: Mask) -> Mask:
    """Whether any of the four 8x8 cells of a 16x16 block is set."""
    return np.asarray(cells[::2, ::2] | cells[1::2, ::2] | cells[::2, 1::2] | cells[1::2, 1::2])


def _dilated(blocks: Mask) -> Mask:
    """With the eight neighbours: hides seams, and draws anew what a moving thing is about to cover."""
    if not blocks.any():
        return blocks
    return np.asarray(cv2.dilate(blocks.view(np.uint8), np.ones((3, 3), np.uint8))).view(np.bool_)


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
    ) -> None:
        if refresh < 1:
            raise UsageError(f"refresh: expected 1 or more pictures, got {refresh}")
        self._card = card
        self._graphs = graphs
        self._threads = threads
        self._refresh = refresh
        self._hold = hold
        self.strength = strength
        self._canvas: Canvas | None = None
        self._video: _Video | None = None
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
                gates, thresholds, faces, floor = canvas.look()
                gates, thresholds = with_floor(gates, thresholds, floor)
                planes = canvas.with_faces(canvas.draw(gates, thresholds), faces, gates, canvas.tone(faces))
            else:
                planes, gates = self._video.draw(frame.time_us, renew=renew)
            rows, columns = frame.height, frame.width
            half = np.s_[: rows // 2, : columns // 2]
            gate_map = GateMap(gates[0, :, : -(-rows // 8), : -(-columns // 8)].copy())
            drawn = ProtectedFrame(
                planes.luma[:rows, :columns],
                planes.cb[half],
                planes.cr[half],
                frame.time_us,
                gate_map.lost_octaves(),
            )
            return drawn, gate_map

    def _sized(self, height: int, width: int) -> Canvas:
        canvas = self._canvas
        if canvas is None or (canvas.height, canvas.width) != (height, width):
            canvas = self._canvas = Canvas(
                height, width, self._card, self._graphs, self._threads, strength=self.strength
            )
            is_video = self._refresh > 1 or self._hold
            self._video = _Video(canvas, refresh=self._refresh, hold=self._hold) if is_video else None
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
        read_object_finder(folder) if background is Background.COARSE else None,
        read_weights(card, GATES_INT8_GRAPH, folder) if has_int8 else None,
    )
    return Protector(
        card, graphs, threads or min(4, os.cpu_count() or 1), refresh, hold=hold, strength=strength
    )
