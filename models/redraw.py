"""The second network at run time: what it adds to the gated planes, calmed so that flat areas stay flat.

A convolution with a stride answers even a flat picture with a faint pattern that repeats in every cell. No
one sees one or two grey levels, but the video encoder pays for them in every block of every picture: up to
twice the bits of the clear video, as measured. What the network answers to a flat picture is therefore
subtracted, and changes too small to see are left out.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from models.phases import add_phases
from models.session import Array, Session, open_session

LUMA_PHASES, CHROMA_PHASES = 16, 4
CELL = 4
"""Side in luma pixels of the cells the network works on."""
QUIET = 2
"""Changes up to this many grey levels are left out."""
_FLAT_LEVELS = (16, 48, 80, 112, 144, 176, 208, 235)
_FLAT_SIDE = 64


class Redrawer:
    """Adds the network's cartoon strokes to gated planes. Not for two threads at once."""

    def __init__(self, graph: bytes, trial_inputs: tuple[Array, Array], threads: int) -> None:
        self.session: Session = open_session(graph, trial_inputs, threads=threads)
        self._tables = _tables(_answer_to_flat(self.session))
        self._scratch = np.empty(0, np.int16)

    def __call__(self, luma: Array, chroma: Array) -> tuple[Array, Array, Array]:
        """Luma [1, 1, H, W] and chroma [1, 2, H/2, W/2] -> the drawn planes [H, W], 2 x [H/2, W/2], fresh."""
        (change,) = self.session.run(luma, chroma)
        calm = [
            np.asarray(cv2.LUT(phase.view(np.uint8), table), np.uint8)
            for phase, table in zip(change[0], self._tables, strict=True)
        ]
        first_cr = LUMA_PHASES + CHROMA_PHASES
        return (
            self._added(luma[0, 0], calm[:LUMA_PHASES]),
            self._added(chroma[0, 0], calm[LUMA_PHASES:first_cr]),
            self._added(chroma[0, 1], calm[first_cr:]),
        )

    def _added(self, plane: Array, phases: list[Array]) -> Array:
        """``plane`` [H, W] plus its change given by phase, s * s times [H/s, W/s] of int8 as bytes."""
        if self._scratch.size < plane.size:
            self._scratch = np.empty(plane.size, np.int16)
        return add_phases(plane, phases, self._scratch[: plane.size].reshape(plane.shape))


def _answer_to_flat(session: Session) -> npt.NDArray[np.int8]:
    """What the network adds to flat grey pictures, per phase: the median over levels, [24]."""
    half = _FLAT_SIDE // 2
    chroma = np.full((1, 2, half, half), 128, np.uint8)
    middle = _FLAT_SIDE // CELL // 2  # away from the padded border
    answers = []
    for level in _FLAT_LEVELS:
        (change,) = session.run(np.full((1, 1, _FLAT_SIDE, _FLAT_SIDE), level, np.uint8), chroma)
        answers.append(change[0, :, middle, middle])
    return np.asarray(np.round(np.median(answers, axis=0)), np.int8)


def _tables(flat: npt.NDArray[np.int8]) -> list[Array]:
    """Per phase, the calmed change for every 8-bit value of the change, both as bytes."""
    raw = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int16)
    calm = raw[None] - flat[:, None].astype(np.int16)
    calm[np.abs(calm) <= QUIET] = 0
    return list(np.clip(calm, -128, 127).astype(np.int8).view(np.uint8))
