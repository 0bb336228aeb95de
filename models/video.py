"""Drawing a video: what is remembered from picture to picture, and which blocks are drawn anew."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np

from models.background import BackgroundMemory, Floor, with_floor
from models.canvas import Canvas, Planes, pasted
from models.changes import ChangeFinder, Mask, looks_alike
from models.looks import LookMemory
from models.places import PlaceMemory
from models.pyramid import GATE_ONE
from models.session import Array
from models.vehicles import Boxes, have_moved

GATE_STEP = 16
"""Where blocks are held, gates are multiples of this, rounded down: a trembling answer changes nothing."""
FIND_FACES_EVERY = 2
"""Looks of a video while faces rest: what is found shuts the gates for four looks (models.looks). While one
moves every look must find it: a gate shut where it was does not help."""
FIND_OBJECTS_EVERY = 2
"""Looks of a video while vehicles rest: what is missed for as long is drawn coarse, which hides no less.
While one moves every look must find it, for its plate would be hidden where it was."""
STILL_TONE = 6.0
"""Grey levels by which a drawn face may be lighter or darker than the picture asks for before it follows."""
BACKGROUND_PERIOD_S = 0.25
"""A coarse background follows the picture no more often: nobody looks for anything there, and every
change of a cell of 8 pixels is a step that the encoder cannot predict."""
MAX_HELD_S = 10.0
"""All of a picture is drawn anew at least this often, whatever the caller says."""
MAX_HELD_PICTURES = 600
"""The same where times stand still."""


class _Maps(NamedTuple):
    """With what to draw: gates and thresholds [1, bands, H/8, W/8], and the floor in them [H/8, W/8]."""

    gates: Array
    thresholds: Array
    floor: Floor | None


class _Shown(NamedTuple):
    """What was drawn last, and block by block with what: likewise."""

    planes: Planes
    gates: Array
    floor: Floor | None


class Video:
    """What is remembered of the pictures before: what was found, and with ``hold`` what was drawn."""

    def __init__(self, canvas: Canvas, *, refresh: int, hold: bool) -> None:
        self._canvas = canvas
        self._looks = LookMemory(refresh)
        self._faces = PlaceMemory()
        self._background = BackgroundMemory()
        self._vehicles: Boxes = np.zeros((0, 4))  # of the last look for objects
        self._vehicles_move = False
        self._num_looks = 0
        self._tone = -math.inf
        self._finder = ChangeFinder(*canvas.padded) if hold else None
        self._shown: _Shown | None = None
        self._renewed_us = 0
        self._background_us = 0  # when the background last followed
        self._num_held = 0  # pictures since all was drawn

    def draw(self, time_us: int, *, renew: bool) -> tuple[Planes, Array]:
        """The loaded picture and the gates it was drawn with."""
        planes, gates = self._draw(time_us, renew=renew)
        return self._canvas.with_faces(planes, self._faces.in_force, gates, self._tone), gates

    def _look(self, *, renew: bool) -> None:
        find_faces = renew or self._faces.is_moving or self._num_looks % FIND_FACES_EVERY == 0
        # Not together with faces, so that no picture takes much longer than the others.
        find_objects = (
            renew
            or self._vehicles_move
            or self._background.in_force is None
            or (self._num_looks + 1) % FIND_OBJECTS_EVERY == 0
        )
        self._num_looks += 1
        look = self._canvas.look(
            find_faces=find_faces, find_objects=find_objects, vehicles_before=self._vehicles
        )
        self._looks.add(look.gates, look.thresholds)
        if look.floor is not None:
            self._background.add(look.floor)
        if find_objects:
            self._vehicles_move = have_moved(self._vehicles, look.vehicles)
            self._vehicles = look.vehicles
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
        maps = _Maps(*with_floor(hidden, thresholds, floor), floor)
        if self._shown is None or renew:
            blocks[:] = True
            self._renewed_us = self._background_us = time_us
            self._num_held = 0
            self._shown = _Shown(canvas.draw(maps.gates, maps.thresholds), maps.gates, floor)
        else:
            # A background that comes back may wait until something changes; what was found may not.
            urgent = _closing(hidden, self._shown.gates) | _lowered(self._shown.floor, floor)
            blocks = _dilated(blocks)
            if not self._background_is_due(time_us):
                blocks &= _not_background(self._shown.floor, floor)
            blocks |= urgent
            self._num_held += 1
            if blocks.any():
                self._shown = self._updated(self._shown, blocks, urgent, maps)
        self._finder.drawn(blocks)
        return self._shown.planes, self._shown.gates

    def _updated(self, old: _Shown, blocks: Mask, urgent: Mask, maps: _Maps) -> _Shown:
        """``old`` with ``blocks`` of the loaded picture; of those that look alike only the urgent ones."""
        drawn = self._canvas.draw_over(old.planes, blocks, maps.gates, maps.thresholds)
        if maps.floor is None or old.floor is None:
            return _Shown(drawn, np.where(_cells(blocks), maps.gates, old.gates), None)
        # What was sharp must not stay for long.
        finest = np.maximum(maps.gates[0, 0], old.gates[0, 0])
        new = blocks & (urgent | ~looks_alike(old.planes, drawn, finest))
        cells = _cells(new)
        gates, floor = np.where(cells, maps.gates, old.gates), np.where(cells, maps.floor, old.floor)
        return _Shown(pasted(old.planes, drawn, new), gates, floor)

    def _background_is_due(self, time_us: int) -> bool:
        if 0 < time_us - self._background_us < BACKGROUND_PERIOD_S * 1e6:
            return False
        self._background_us = time_us
        return True

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


def _not_background(drawn: Floor | None, floor: Floor | None) -> Mask:
    """Blocks of 16x16 in which something fine was drawn or is to be drawn, as far as the floor goes."""
    if drawn is None or floor is None:
        return np.ones((1, 1), np.bool_)
    return _in_blocks(np.minimum(drawn, floor) < GATE_ONE)


def _in_blocks(cells: Mask) -> Mask:
    """Whether any of the four 8x8 cells of a 16x16 block is set."""
    return np.asarray(cells[::2, ::2] | cells[1::2, ::2] | cells[::2, 1::2] | cells[1::2, 1::2])


def _cells(blocks: Mask) -> Mask:
    """Blocks of 16x16 as cells of 8x8."""
    return blocks.repeat(2, 0).repeat(2, 1)


def _dilated(blocks: Mask) -> Mask:
    """With the eight neighbours: hides seams, and draws anew what a moving thing is about to cover."""
    if not blocks.any():
        return blocks
    return np.asarray(cv2.dilate(blocks.view(np.uint8), np.ones((3, 3), np.uint8))).view(np.bool_)
