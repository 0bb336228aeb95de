from __future__ import annotations

import cv2
import numpy as np
import pytest

from base.errors import Malformed
from models.drawn_face import MIDDLE, FaceDrawer, face_mask, tone_for
from models.places import FacePlace


def _png(picture: np.ndarray) -> bytes:
    return bytes(cv2.imencode(".png", picture)[1].tobytes())


def _features() -> np.ndarray:
    face = np.full((112, 112), MIDDLE, np.uint8)
    cv2.circle(face, (38, 52), 6, MIDDLE - 50, -1)
    cv2.circle(face, (74, 52), 6, MIDDLE - 50, -1)
    return face


@pytest.fixture(scope="module")
def drawer() -> FaceDrawer:
    return FaceDrawer(_png(_features()))


def _planes(luma: np.ndarray, chroma: int = 128) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cb, cr = np.full((2, luma.shape[0] // 2, luma.shape[1] // 2), chroma, np.uint8)
    return luma, cb, cr


def test_whatever_lies_under_it_nothing_of_it_remains(drawer: FaceDrawer) -> None:
    place = FacePlace(80, 80, 112, 0.2)
    rng = np.random.default_rng(0)
    drawn = []
    for chroma in (90, 160):
        planes = _planes(rng.integers(0, 256, (160, 160), dtype=np.uint8), chroma)
        drawer.draw(planes, [place], 120)
        drawn.append(planes)
    whole = cv2.warpAffine(face_mask(), place.matrix(), (160, 160)) > 0.999
    half = cv2.erode(whole[::2, ::2].astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    for first, second, inside in zip(*drawn, (whole, half, half), strict=True):
        np.testing.assert_array_equal(first[inside], second[inside])
    assert np.ptp(drawn[0][0][whole]) > 40  # eyes are there


def test_nothing_outside_the_face_changes(drawer: FaceDrawer) -> None:
    planes = _planes(np.random.default_rng(1).integers(0, 256, (160, 200), dtype=np.uint8))
    before = [plane.copy() for plane in planes]
    place = FacePlace(100, 80, 60, -0.4)
    drawer.draw(planes, [place], 120)
    outside = cv2.warpAffine(face_mask(), place.matrix(), (200, 160)) == 0
    np.testing.assert_array_equal(planes[0][outside], before[0][outside])
    for plane, old in zip(planes, before, strict=True):
        assert (plane != old).any()
        assert (plane[:8] == old[:8]).all()


def test_the_face_is_as_light_as_the_picture_and_never_black() -> None:
    tones = [tone_for(np.full((16, 16), level, np.uint8)) for level in (16, 72, 128, 235)]
    assert tones == sorted(tones)
    assert tones[2] == pytest.approx(16 + 107)
    assert tones[0] == pytest.approx(16 + 0.35 * 107)
    assert tones[-1] == pytest.approx(16 + 107 * (0.35 + 0.65 * 219 / 112))


@pytest.mark.parametrize("tilt", [0.0, 0.7, np.pi / 2, -2.5])
def test_the_skin_under_a_face_does_not_tell_how_light_the_drawn_one_is(
    drawer: FaceDrawer, tilt: float
) -> None:
    place = FacePlace(60, 70, 100, tilt)
    covered = cv2.warpAffine(face_mask(), place.matrix(), (160, 120)) > 0
    tones = [tone_for(np.where(covered, skin, 100).astype(np.uint8), [place]) for skin in (40, 200)]
    assert tones == [tone_for(np.full((120, 160), 100, np.uint8))] * 2


def test_a_face_that_fills_the_picture_is_as_light_as_in_one_of_middle_brightness() -> None:
    places = [FacePlace(16, 16, 90, 0)]
    assert tone_for(np.full((32, 32), 40, np.uint8), places) == tone_for(np.full((32, 32), 128, np.uint8))


def test_the_eyes_lie_where_the_similarity_puts_them(drawer: FaceDrawer) -> None:
    luma = np.full((200, 200), 128, np.uint8)
    drawer.draw(_planes(luma), [FacePlace(100, 100, 112, np.pi / 2)], 128)
    # Upright eyes at (38, 52), (74, 52) of 112: 18 left and right of the middle and 4 above it. A quarter
    # turn clockwise about (56, 56) brings them 18 above and below, and 4 to the right.
    dark = np.argwhere(luma < 90)
    assert np.abs(dark[:, 1] - 104).max() <= 8
    assert {round(float(part[:, 0].mean())) for part in (dark[dark[:, 0] < 100], dark[dark[:, 0] > 100])} == {
        82,
        118,
    }


@pytest.mark.parametrize("xy", [(-20, 30), (0, 0), (159, 119), (400, 30), (80, -500)])
def test_faces_over_the_border_are_cut(drawer: FaceDrawer, xy: tuple[int, int]) -> None:
    planes = _planes(np.full((120, 160), 100, np.uint8))
    drawer.draw(planes, [FacePlace(*xy, 90, 0.1), FacePlace(*xy, 4000, 3.0)], 120)


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", _png(np.zeros((10, 10), np.uint8)), _png(np.zeros((112, 112, 3), np.uint8))]
)
def test_a_picture_that_is_no_face_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match="grey PNG of 112x112"):
        FaceDrawer(data)
