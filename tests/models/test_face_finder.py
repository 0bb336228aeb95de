from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.drawn_face import read_drawn_face
from models.face_finder import MAX_FACES, FaceFinder, decode
from models.places import ALIGNED_LANDMARKS, SMALLEST_SIDE, FacePlace

SIZE_HW = (96, 128)
NO_SCALE = np.ones(2)


def _answer(places: list[FacePlace]) -> tuple[np.ndarray, np.ndarray]:
    """What a faultless network says: anchors within a quarter of a side around each middle answer for it."""
    rows, columns = SIZE_HW[0] // 4, SIZE_HW[1] // 4
    answer = np.zeros((rows * columns, 8, 2), np.float32)
    log_odds = np.full(rows * columns, -9, np.float32)
    four = np.vstack([ALIGNED_LANDMARKS[:3], ALIGNED_LANDMARKS[3:].mean(0)])
    for index in range(rows * columns):
        anchor = np.array([index % columns + 0.5, index // columns + 0.5]) * 4
        for place in places:
            if math.hypot(*(anchor - (place.x, place.y))) < 0.25 * place.side:
                matrix = place.matrix()
                answer[index, 0] = (place.x, place.y) - anchor
                answer[index, 1] = place.side
                answer[index, 2:6] = (matrix[:, :2] @ four.T + matrix[:, 2:]).T - anchor
                log_odds[index] = 3
    return answer.reshape(-1, 16), log_odds


def test_faces_come_back_from_a_faultless_answer() -> None:
    places = [FacePlace(30, 40, 40, 0.3), FacePlace(90, 50, 50, -0.5)]
    found = sorted(decode(*_answer(places), SIZE_HW, NO_SCALE), key=lambda one: one.x)
    assert len(found) == 2
    for got, wanted in zip(found, places, strict=True):
        assert (got.x, got.y, got.side) == pytest.approx((wanted.x, wanted.y, wanted.side), abs=1e-3)
        assert got.tilt == pytest.approx(wanted.tilt, abs=1e-4)


def test_pixels_of_the_picture_are_meant() -> None:
    (found,) = decode(*_answer([FacePlace(64, 48, 40, 0)]), SIZE_HW, np.array([5.0, 5.0]))
    assert (found.x, found.y, found.side) == pytest.approx((320, 240, 200), abs=0.01)


def test_a_small_face_is_not_drawn() -> None:
    assert decode(*_answer([FacePlace(64, 48, SMALLEST_SIDE - 1, 0)]), SIZE_HW, NO_SCALE) == []


any_float = st.floats(width=32, allow_nan=True, allow_infinity=True)
plausible = st.floats(-200, 200, width=32)


@settings(deadline=None)
@given(
    arrays(np.float32, (48, 16), elements=any_float | plausible),
    arrays(np.float32, 48, elements=any_float | plausible),
)
def test_any_answer_gives_few_finite_faces(answer: np.ndarray, log_odds: np.ndarray) -> None:
    found = decode(answer, log_odds, (24, 32), NO_SCALE)
    assert len(found) <= MAX_FACES
    assert all(np.isfinite([one.x, one.y, one.side, one.tilt]).all() for one in found)
    assert all(SMALLEST_SIDE <= one.side <= 4 * 32 for one in found)


@pytest.mark.parametrize("size_hw", [(64, 64), (2, 2), (90, 1280), (720, 1280)])
def test_pictures_without_a_face_have_none(size_hw: tuple[int, int]) -> None:
    finder = FaceFinder(read_drawn_face().finder, *size_hw, threads=1)
    half = np.full((size_hw[0] // 2, size_hw[1] // 2), 128, np.uint8)
    assert finder(np.full(size_hw, 90, np.uint8), half, half) == []
