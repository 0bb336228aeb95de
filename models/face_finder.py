"""Finds faces with BlazeFace: a second look for the gates, and where the drawn face belongs.

Bazarevsky et al., "BlazeFace: Sub-millisecond Neural Face Detection on Mobile GPUs", 2019; the full-range
model of MediaPipe. It only adds to what the gate network hides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from models.places import SMALLEST_SIDE, FacePlace
from models.session import Array, Session, open_session
from models.small_picture import fitted_size, small_rgb

LONGEST_SIDE = 320
"""Pixels of the picture that the network sees; of 640 wide pictures it finds most faces of 40 pixels."""
STRIDE = 4
MIN_SCORE = 0.4
MAX_FACES = 64
_VALUES = 16  # per anchor: way to the middle, size, and the way to six landmarks; x and y each

Floats = npt.NDArray[np.float32]


class FaceFinder:
    """For pictures of one size. Not for two threads at once."""

    def __init__(self, graph: bytes, height: int, width: int, threads: int) -> None:
        """``height`` and ``width`` of the luma plane."""
        self._size_hw = fitted_size(height, width, LONGEST_SIDE)
        self._to_picture_xy = np.array([width / self._size_hw[1], height / self._size_hw[0]])
        self._session: Session = open_session(
            graph, (np.zeros((1, *self._size_hw, 3), np.float32),), threads=threads
        )

    def __call__(self, luma_hw: Array, cb_hw: Array, cr_hw: Array) -> list[FacePlace]:
        """Faces in luma pixels, the surest first, at most MAX_FACES."""
        seen = small_rgb(luma_hw, cb_hw, cr_hw, self._size_hw).astype(np.float32) / np.float32(127.5) - 1
        answer, scores = self._session.run(np.asarray(seen[None], np.float32))
        return decode(answer[0], scores[0, :, 0], self._size_hw, self._to_picture_xy)


def decode(
    answer: Floats, log_odds: Floats, size_hw: tuple[int, int], to_picture_xy: npt.NDArray[np.float64]
) -> list[FacePlace]:
    """Faces from the network's answer; anchors of one face vote by their scores.

    Args:
        answer: [n, 16] in pixels of what the network saw, relative to the anchors; one every STRIDE pixels.
        log_odds: [n].
        size_hw: of what the network saw.
        to_picture_xy: times this gives pixels of the picture.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scores = 1 / (1 + np.exp(-np.clip(log_odds.astype(np.float64), -80, 80)))
    chosen = np.flatnonzero((scores > MIN_SCORE) & np.isfinite(answer).all(1))
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")][: MAX_FACES * 16]
    columns = size_hw[1] // STRIDE
    anchors = (np.stack([chosen % columns, chosen // columns], 1) + 0.5) * STRIDE
    pairs = answer[chosen].astype(np.float64).reshape(-1, _VALUES // 2, 2)
    centres, sides, landmarks = pairs[:, 0] + anchors, pairs[:, 1].mean(1), pairs[:, 2:6] + anchors[:, None]
    scores = scores[chosen]
    free = sides > 0
    found: list[FacePlace] = []
    for index in range(len(chosen)):
        if not free[index] or len(found) == MAX_FACES:
            continue
        gaps = np.hypot(*(centres - centres[index]).T)
        mine = free & (gaps < 0.4 * sides[index])
        free &= gaps >= 0.5 * sides[index]
        shares = scores[mine] / scores[mine].sum()
        points = np.einsum("n,nkc->kc", shares, landmarks[mine]) * to_picture_xy
        place = FacePlace.of_landmarks(points)
        if SMALLEST_SIDE <= place.side <= 4 * float(max(size_hw * to_picture_xy[::-1])):
            found.append(place)
    return found
