"""Where faces lie: read from a face finder's answer, and held still over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SMALLEST_SIDE = 22.0
"""Pixels of an aligned crop below which no face is drawn: detectors see no features there."""
ALIGNED_SIDE = 112
# fmt: off
ALIGNED_LANDMARKS = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
# fmt: on
"""Eyes, nose and corners of the mouth in an aligned 112x112 crop (Deng et al., ArcFace, CVPR 2019)."""
_EYES_NOSE_MOUTH = np.vstack([ALIGNED_LANDMARKS[:3], ALIGNED_LANDMARKS[3:].mean(0)]) @ [1, 1j]


@dataclass(frozen=True, slots=True)
class FacePlace:
    """A similarity and nothing more: centre and side of the aligned crop in luma pixels, tilt in radians."""

    x: float
    y: float
    side: float
    tilt: float

    @classmethod
    def of_landmarks(cls, points: npt.NDArray[np.float64]) -> FacePlace:
        """The similarity that brings the aligned landmarks nearest to ``points`` [4, 2] (Umeyama 1991).

        Left eye, right eye, nose and middle of the mouth, as they lie in the picture.
        """
        found = points @ [1, 1j]
        centred = _EYES_NOSE_MOUTH - _EYES_NOSE_MOUTH.mean()
        turn = complex(np.vdot(centred, found - found.mean()) / np.vdot(centred, centred))
        middle = complex(found.mean() + turn * (complex(1, 1) * ALIGNED_SIDE / 2 - _EYES_NOSE_MOUTH.mean()))
        return cls(middle.real, middle.imag, abs(turn) * ALIGNED_SIDE, math.atan2(turn.imag, turn.real))

    def matrix(self) -> npt.NDArray[np.float64]:
        """[2, 3], from the aligned crop to the picture."""
        scale = self.side / ALIGNED_SIDE
        cos, sin = scale * math.cos(self.tilt), scale * math.sin(self.tilt)
        middle = ALIGNED_SIDE / 2
        return np.array(
            [
                [cos, -sin, self.x - middle * (cos - sin)],
                [sin, cos, self.y - middle * (sin + cos)],
            ]
        )

    def window(self, share: float, height: int, width: int) -> tuple[int, int, int, int]:
        """Top, bottom, left and right of what lies within ``share`` of the side, cut to a plane.

        In a plane that it does not reach, bottom is at most top or right at most left.
        """
        reach = share * self.side
        return (
            max(0, int(self.y - reach)),
            max(0, min(height, int(self.y + reach) + 1)),
            max(0, int(self.x - reach)),
            max(0, min(width, int(self.x + reach) + 1)),
        )

    def is_near(self, other: FacePlace, share: float) -> bool:
        """Whether the centres are nearer than ``share`` of the larger side."""
        return math.hypot(self.x - other.x, self.y - other.y) < share * max(self.side, other.side)


FACE_REACH = 0.55
"""Share of the side within which all of a face lies, and all that is drawn of one, however it is tilted."""
FACE_CELLS = 3.5
"""Cells of a face's height that may remain: at 7 a recogniser still finds people at four times chance."""


def shut_over(gates: npt.NDArray[np.uint8], faces: Sequence[FacePlace]) -> npt.NDArray[np.uint8]:
    """``gates`` [1, bands, H/8, W/8], finest band first, shut over every face as far as its size asks for."""
    if not faces:
        return gates
    gates = gates.copy()
    height, width = (8 * side for side in gates.shape[-2:])
    for face in faces:
        top, bottom, left, right = face.window(FACE_REACH, height, width)
        num_shut = max(1, math.ceil(math.log2(max(face.side / FACE_CELLS, 1.01))))
        gates[:, :num_shut, top // 8 : -(-bottom // 8), left // 8 : -(-right // 8)] = 0
    return gates


def hidden_faces(faces: Sequence[FacePlace], finest_gates: npt.NDArray[Any]) -> list[FacePlace]:
    """Those at whose middle the finest detail is destroyed: ``finest_gates`` [H/8, W/8] is 0 there.

    Of a face whose middle lies outside of the picture the nearest block counts.
    """
    last_row, last_column = (side - 1 for side in finest_gates.shape)
    cells = [
        (face, min(max(int(face.y // 8), 0), last_row), min(max(int(face.x // 8), 0), last_column))
        for face in faces
    ]
    return [face for face, row, column in cells if not finest_gates[row, column]]


class PlaceMemory:
    """Faces over time: one that hardly moves stays where it was drawn, one that is missed once stays too."""

    STILL_SHARE, STILL_OCTAVES, STILL_RADIANS = 0.04, 0.08, 0.07
    KEPT_LOOKS = 2

    def __init__(self) -> None:
        self._held: list[tuple[FacePlace, int]] = []  # with looks since it was seen
        self.is_moving = False  # whether the last look found a face anywhere but where one was held

    @property
    def in_force(self) -> list[FacePlace]:
        """Where faces are drawn."""
        return [place for place, _ in self._held]

    def add(self, found: Sequence[FacePlace]) -> None:
        """A new look."""
        held: list[tuple[FacePlace, int]] = []
        before = list(self._held)
        self.is_moving = False
        for place in found:
            near = [entry for entry in before if entry[0].is_near(place, 0.4)]
            if near:
                entry = min(near, key=lambda one: math.hypot(one[0].x - place.x, one[0].y - place.y))
                before.remove(entry)
                place = self._steadied(entry[0], place)  # noqa: PLW2901
            self.is_moving |= not any(place is old for old, _ in self._held)
            held.append((place, 0))
        missed = [(place, age + 1) for place, age in before if age + 1 < self.KEPT_LOOKS]
        self._held = held + [one for one in missed if not any(one[0].is_near(p, 0.5) for p, _ in held)]

    def _steadied(self, old: FacePlace, new: FacePlace) -> FacePlace:
        still = (
            old.is_near(new, self.STILL_SHARE)
            and abs(math.log2(new.side / old.side)) < self.STILL_OCTAVES
            and abs(math.remainder(new.tilt - old.tilt, 2 * math.pi)) < self.STILL_RADIANS
        )
        return old if still else new
