"""Buffers and networks for pictures of one size: draws whole pictures, or only the tiles that changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from base.frames import ClearFrame
from models.background import Background, Floor, floor_around
from models.card import ModelCard
from models.changes import BLOCK, Mask
from models.drawn_face import DrawnFace, FaceDrawer, tone_for
from models.face_finder import FaceFinder
from models.object_finder import NO_OBJECTS, FoundObjects, ObjectFinder
from models.places import FacePlace, hidden_faces, shut_over
from models.pyramid import GatedPyramid, Level, join, pool, split
from models.session import Array, Session, open_session
from models.strength import Strength, background_octaves, keeps_colours, strengthened
from models.tiles import TILE, TileDrawer
from models.vehicles import Boxes, VehicleLook

GREY = 128
"""A chroma sample without colour."""
WHOLE_SHARE = 0.5
"""Share of tiles from which on drawing the whole picture is no slower."""


class Planes(NamedTuple):
    """Luma [H, W], cb and cr [H/2, W/2] of the padded picture."""

    luma: Array
    cb: Array
    cr: Array


class Graphs(NamedTuple):
    """The networks as ONNX, and the face that is drawn."""

    gates: bytes
    face: DrawnFace
    objects: bytes  # for ObjectFinder
    int8_gates: bytes | None = None  # the gate network in 8-bit integers


class Look(NamedTuple):
    """Gates and thresholds, each [1, bands, H/8, W/8], where faces lie, and what the background may show.

    The gates are those of what must be hidden, on ``vehicles`` [n, 4] too. Where no object was looked for
    there are none, and ``floor`` is None, as it is where the background stays fine.
    """

    gates: Array
    thresholds: Array
    faces: list[FacePlace]
    floor: Floor | None
    vehicles: Boxes


class Canvas:
    """One picture at a time, padded to the network's multiple. Not for two threads at once."""

    def __init__(
        self,
        height: int,
        width: int,
        card: ModelCard,
        graphs: Graphs,
        threads: int,
        *,
        strength: Strength = Strength.STANDARD,
        background: Background = Background.COARSE,
    ) -> None:
        self._strength, self._background = strength, background
        multiple = card.size_multiple
        padded = (-(-height // multiple) * multiple, -(-width // multiple) * multiple)
        self.height, self.width, self.padded = height, width, padded
        self.luma = np.zeros((1, 1, *padded), np.uint8)
        self.chroma = np.zeros((1, 2, padded[0] // 2, padded[1] // 2), np.uint8)
        self._half = np.empty((padded[0] // 2, padded[1] // 2), np.uint8)
        self._finest = Level(*padded)
        self._pyramid = GatedPyramid(padded[0] // 2, padded[1] // 2, card.bands - 1, channels=3)
        self.gate_net: Session = open_session(
            graphs.gates, (self.luma, self.chroma), threads=threads, int8=graphs.int8_gates
        )
        self._tiles = TileDrawer(*padded, card.bands)
        self._faces = FaceFinder(graphs.face.finder, height, width, threads)
        self._objects = ObjectFinder(graphs.objects, height, width, threads)
        self._vehicles = VehicleLook(self.gate_net, height, width)
        self._drawer = FaceDrawer(graphs.face.picture)

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

    def look(
        self, *, find_faces: bool = True, find_objects: bool = True, vehicles_before: Boxes | None = None
    ) -> Look:
        """What must be hidden in the loaded picture at this strength, and where nothing has to be seen.

        Without ``find_faces`` there are no faces, without ``find_objects`` neither vehicles nor a floor.
        ``vehicles_before``: those of the look before.
        """
        gates, thresholds = self.gate_net.run(self.luma, self.chroma)
        faces = self._faces(*self._picture()) if find_faces else []
        gates = shut_over(gates, faces)
        objects = self._objects(*self._picture()) if find_objects else NO_OBJECTS
        vehicles = self._vehicles.boxes(objects)
        gates = self._vehicles(self.luma[0, 0], self.chroma[0], gates, vehicles, vehicles_before)
        gates, thresholds = strengthened(self._strength, gates, thresholds)
        return Look(gates, thresholds, faces, self._floor(objects) if find_objects else None, vehicles)

    def tone(self, faces: Sequence[FacePlace]) -> float:
        """How light the drawn face must be in the loaded picture, with ``faces`` in it."""
        return tone_for(self.luma[0, 0, : self.height, : self.width], faces)

    def _picture(self) -> Planes:
        """The loaded planes without padding."""
        half = np.s_[: self.height // 2, : self.width // 2]
        return Planes(
            self.luma[0, 0, : self.height, : self.width], self.chroma[0, 0][half], self.chroma[0, 1][half]
        )

    def _floor(self, objects: FoundObjects) -> Floor | None:
        if self._background is Background.FINE:
            return None
        blocks_hw = (self.padded[0] // 8, self.padded[1] // 8)
        return floor_around(objects, blocks_hw, background_octaves(self._strength))

    def with_faces(self, planes: Planes, faces: Sequence[FacePlace], gates: Array, tone: float) -> Planes:
        """``planes`` with the drawn face wherever one lies and is hidden; those given stay as they are."""
        hidden = hidden_faces(faces, gates[0, 0])
        if not hidden:
            return planes
        fresh = Planes(*(plane.copy() for plane in planes))
        self._drawer.draw(fresh, hidden, tone)
        return self._coloured(fresh)

    def draw(self, gates: Array, thresholds: Array) -> Planes:
        """The loaded picture, drawn; freshly allocated."""
        luma = self.luma[0, 0]
        half = pool(luma, self._half)
        # Luma at half its size and chroma share their gates: from here down they are three channels of one.
        rebuilt = self._pyramid(join(half, *self.chroma[0]), gates[0, 1:], thresholds[0, 1:])
        rebuilt_half, *rebuilt_chroma = split(rebuilt)
        kept = self._finest.rebuild(luma, half, rebuilt_half, gates[0, 0], thresholds[0, 0])
        return self._coloured(Planes(kept.copy(), *rebuilt_chroma))

    def draw_over(self, last: Planes, blocks: Mask, gates: Array, thresholds: Array) -> Planes:
        """``last`` with some 16x16 blocks drawn anew from the loaded picture; freshly allocated.

        The new blocks are those of :meth:`draw`.
        """
        share = TILE // BLOCK
        rows, columns = blocks.shape
        tiles: Mask = np.asarray(
            blocks.reshape(rows // share, share, columns // share, share).any((1, 3)), np.bool_
        )
        if tiles.mean() > WHOLE_SHARE:
            return pasted(last, self.draw(gates, thresholds), blocks)
        fresh = Planes(*(plane.copy() for plane in last))
        self._tiles(fresh, (self.luma[0, 0], self.chroma[0]), (gates[0], thresholds[0]), tiles, blocks)
        return self._coloured(fresh)

    def _coloured(self, planes: Planes) -> Planes:
        """``planes``, at the strongest setting all grey; written into them."""
        if not keeps_colours(self._strength):
            planes.cb.fill(GREY)
            planes.cr.fill(GREY)
        return planes


def pasted(last: Planes, new: Planes, blocks: Mask) -> Planes:
    """``new`` in the ``blocks`` of 16x16, ``last`` elsewhere; written into ``new``."""
    for old_plane, new_plane in zip(last, new, strict=True):
        held = cv2.resize((~blocks).view(np.uint8), new_plane.shape[::-1], interpolation=cv2.INTER_NEAREST)
        cv2.copyTo(old_plane, held, new_plane)
    return new
