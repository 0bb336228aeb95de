from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.letterbox import PAD_VALUE, Letterbox

SIDES = st.integers(1, 4000)


@pytest.mark.parametrize(
    ("source_wh", "inner_wh"),
    [((832, 416), (416, 208)), ((100, 200), (208, 416)), ((416, 416), (416, 416)), ((1000, 3), (416, 1))],
)
def test_the_longer_side_fills_the_input(source_wh: tuple[int, int], inner_wh: tuple[int, int]) -> None:
    box = Letterbox.fit(source_wh, (416, 416))
    assert (box.inner_width, box.inner_height) == inner_wh


def test_the_rest_of_the_input_is_grey() -> None:
    canvas = Letterbox.fit((200, 100), (64, 64)).apply(np.zeros((100, 200, 3), np.uint8))
    assert canvas.shape == (64, 64, 3)
    assert (canvas[:32] == 0).all()
    assert (canvas[32:] == PAD_VALUE).all()


@given(SIDES, SIDES, st.integers(1, 40), st.integers(1, 40))
def test_the_inner_picture_maps_back_onto_the_whole_source(
    width: int, height: int, columns: int, rows: int
) -> None:
    box = Letterbox.fit((width, height), (columns * 32, rows * 32))
    inner = np.array([[0, 0, box.inner_width, box.inner_height]], np.float32)
    assert box.boxes_to_source(inner).tolist() == [[0, 0, width, height]]


def test_each_axis_is_scaled_back_by_its_own_ratio() -> None:
    # 1000 x 333 into 416: 416 x round(138.528) = 139 rows, so y is scaled by 333 / 139 and not by 1000 / 416.
    box = Letterbox.fit((1000, 333), (416, 416))
    (found,) = box.boxes_to_source(np.array([[104, 69.5, 208, 139]], np.float32)).tolist()
    assert found == [250.0, 166.5, 500.0, 333.0]
