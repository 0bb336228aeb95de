from __future__ import annotations

import math

import numpy as np
import pytest

from models.places import ALIGNED_LANDMARKS, FacePlace, PlaceMemory, hidden_faces, shut_over


def test_the_matrix_turns_clockwise_about_the_middle_of_the_crop() -> None:
    place = FacePlace(100, 50, 224, math.pi / 2)
    matrix = place.matrix()
    np.testing.assert_allclose(matrix @ [56, 56, 1], [100, 50])
    np.testing.assert_allclose(matrix @ [66, 56, 1], [100, 70], atol=1e-9)  # right becomes down, twice as far


@pytest.mark.parametrize("tilt", [0.0, 0.4, -1.2])
def test_landmarks_tell_the_similarity_that_placed_them(tilt: float) -> None:
    four = np.vstack([ALIGNED_LANDMARKS[:3], ALIGNED_LANDMARKS[3:].mean(0)])
    matrix = FacePlace(200, 120, 80, tilt).matrix()
    place = FacePlace.of_landmarks((matrix[:, :2] @ four.T + matrix[:, 2:]).T)
    assert (place.x, place.y, place.side, place.tilt) == pytest.approx((200, 120, 80, tilt), abs=1e-6)


def test_a_face_is_hidden_where_the_finest_gate_at_its_middle_is_shut() -> None:
    gates = np.full((10, 20), 128, np.uint8)
    gates[5, 12] = 0
    hidden, open_one, outside = FacePlace(100, 44, 60, 0), FacePlace(40, 44, 60, 0), FacePlace(-5, 44, 60, 0)
    assert hidden_faces([open_one, hidden, outside], gates) == [hidden]


def test_a_face_whose_middle_lies_outside_is_hidden_where_the_nearest_block_is_shut() -> None:
    gates = np.full((10, 20), 128, np.uint8)
    gates[0, 12] = gates[9, 19] = 0
    above, corner, beside = FacePlace(100, -3, 60, 0), FacePlace(163, 84, 60, 0), FacePlace(-3, 44, 60, 0)
    assert hidden_faces([above, corner, beside], gates) == [above, corner]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (FacePlace(100, 50, 40, 0.3), (30, 71, 80, 121)),
        (FacePlace(3, 95, 40, 0), (75, 100, 0, 24)),
    ],
)
def test_a_window_is_cut_to_the_plane(place: FacePlace, expected: tuple[int, int, int, int]) -> None:
    assert place.window(0.5, 100, 200) == expected


@pytest.mark.parametrize("xy", [(-90, 50), (290, 50), (100, -90), (100, 190), (1e12, -1e12)])
def test_no_window_is_left_in_a_plane_that_is_not_reached(xy: tuple[float, float]) -> None:
    top, bottom, left, right = FacePlace(*xy, 40, 0).window(0.5, 100, 200)
    assert bottom <= top or right <= left


def test_a_face_that_trembles_stays_and_one_that_walks_is_followed() -> None:
    memory = PlaceMemory()
    memory.add([FacePlace(100, 100, 80, 0)])
    memory.add([FacePlace(102, 99, 82, 0.03)])
    assert memory.in_force == [FacePlace(100, 100, 80, 0)]
    memory.add([FacePlace(110, 100, 80, 0)])
    assert memory.in_force == [FacePlace(110, 100, 80, 0)]


def test_faces_move_until_all_that_are_found_lie_where_they_were() -> None:
    memory = PlaceMemory()
    looks = [
        ([FacePlace(100, 100, 80, 0)], True),  # a new one
        ([FacePlace(101, 100, 80, 0)], False),
        ([FacePlace(110, 100, 80, 0)], True),
        ([FacePlace(110, 100, 80, 0), FacePlace(300, 100, 80, 0)], True),
        ([FacePlace(110, 100, 80, 0)], False),  # nobody knows about the one that is missed
        ([], False),
    ]
    for found, expected in looks:
        memory.add(found)
        assert memory.is_moving is expected


def test_a_face_missed_once_stays_and_missed_twice_is_gone() -> None:
    memory = PlaceMemory()
    memory.add([FacePlace(100, 100, 80, 0)])
    memory.add([])
    assert len(memory.in_force) == 1
    memory.add([])
    assert memory.in_force == []


def test_two_faces_side_by_side_keep_apart() -> None:
    memory = PlaceMemory()
    both = [FacePlace(100, 100, 80, 0), FacePlace(180, 100, 80, 0)]
    memory.add(both)
    memory.add([FacePlace(181, 100, 80, 0), FacePlace(101, 100, 80, 0)])
    assert sorted(memory.in_force, key=lambda one: one.x) == both


def test_the_aligned_landmarks_are_those_of_arcface() -> None:
    assert ALIGNED_LANDMARKS.shape == (5, 2)
    left, right = ALIGNED_LANDMARKS[:2]
    assert np.hypot(*(right - left)) == pytest.approx(35.2, abs=0.1)  # 112-pixel template of the paper's code


def test_gates_are_shut_over_a_face_until_three_and_a_half_cells_remain() -> None:
    gates = np.full((1, 6, 40, 60), 128, np.uint8)
    shut = shut_over(gates, [FacePlace(240, 160, 112, 0)])
    assert gates.all()  # what was given stays
    # Cells of 32 pixels: bands of 1-2, 2-4, 4-8, 8-16 and 16-32 pixels go.
    assert (shut[0, :, 20, 30] == 0).tolist() == [True] * 5 + [False]
    # It reaches 0.55 * 112 = 61.6 pixels from the middle: to 178.4, in the block that begins at 176.
    assert shut[0, 0, 20, 21:23].tolist() == [128, 0]


def test_a_face_over_the_border_shuts_what_is_inside() -> None:
    gates = np.full((1, 6, 10, 10), 128, np.uint8)
    assert shut_over(gates, [FacePlace(-10, -10, 60, 0)])[0, 0, 0, 0] == 0
    assert shut_over(gates, [FacePlace(-500, 40, 60, 0)]).all()
    for x, y in ((-45, 40), (40, -45), (125, 40), (40, 125)):  # 45 pixels out, and it reaches 33
        assert shut_over(gates, [FacePlace(x, y, 60, 0)]).all()
