from __future__ import annotations

import cv2
import numpy as np
import pytest

from base.errors import Malformed
from models.drawn_face import MIDDLE, FaceDrawer, face_mask
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


def test_whatever_lies_under_it_only_brightness_and_shading_remain(drawer: FaceDrawer) -> None:
    place = FacePlace(80, 80, 112, 0.2)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:160, :160]
    shading = 90 + 0.2 * x + 0.1 * y
    drawn = []
    for seed_texture in (0, 40):
        texture = cv2.resize(rng.uniform(-1, 1, (12, 12)), (160, 160), interpolation=cv2.INTER_CUBIC)
        luma = np.clip(shading + seed_texture * texture, 0, 255).astype(np.uint8)
        drawer.draw(luma, [place])
        drawn.append(luma.astype(float))
    inside = cv2.warpAffine(face_mask(), place.matrix(), (160, 160)) > 0.999
    gap = (drawn[1] - drawn[0])[inside]
    # What differs is a plane, not the texture: 40 grey levels before.
    basis = np.stack([np.ones(inside.sum()), y[inside], x[inside]], 1)
    rest = gap - basis @ np.linalg.lstsq(basis, gap, rcond=None)[0]
    assert np.abs(rest).max() <= 1.5  # rounding, and what the soft edge lets into the fit
    assert np.ptp(drawn[0][inside]) > 40  # eyes are there


def test_nothing_outside_the_face_changes(drawer: FaceDrawer) -> None:
    luma = np.random.default_rng(1).integers(0, 256, (160, 200), dtype=np.uint8)
    before = luma.copy()
    place = FacePlace(100, 80, 60, -0.4)
    drawer.draw(luma, [place])
    outside = cv2.warpAffine(face_mask(), place.matrix(), (200, 160)) == 0
    np.testing.assert_array_equal(luma[outside], before[outside])
    assert (luma != before).any()


def test_the_eyes_lie_where_the_similarity_puts_them(drawer: FaceDrawer) -> None:
    luma = np.full((200, 200), 128, np.uint8)
    drawer.draw(luma, [FacePlace(100, 100, 112, np.pi / 2)])
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
    luma = np.full((120, 160), 100, np.uint8)
    drawer.draw(luma, [FacePlace(*xy, 90, 0.1), FacePlace(*xy, 4000, 3.0)])


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", _png(np.zeros((10, 10), np.uint8)), _png(np.zeros((112, 112, 3), np.uint8))]
)
def test_a_picture_that_is_no_face_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match="grey PNG of 112x112"):
        FaceDrawer(data)
