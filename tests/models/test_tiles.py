from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from base.frames import ClearFrame
from models import read_card
from models.canvas import Canvas, Graphs
from models.card import WEIGHTS, read_weights
from models.drawn_face import read_drawn_face
from models.object_finder import read_object_finder
from models.protector import CARD, GATES_GRAPH
from models.pyramid import GATE_ONE

HEIGHT, WIDTH = 256, 448
Plane = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def canvas() -> Canvas:
    card = read_card(WEIGHTS / CARD)
    graphs = Graphs(read_weights(card, GATES_GRAPH), read_drawn_face(), read_object_finder())
    return Canvas(HEIGHT, WIDTH, card, graphs, threads=1)


def _frame(seed: int) -> ClearFrame:
    rng = np.random.default_rng(seed)

    def plane(rows: int, columns: int) -> Plane:
        small = rng.integers(0, 256, (rows // 6, columns // 6), dtype=np.uint8)
        return np.asarray(cv2.resize(small, (columns, rows), interpolation=cv2.INTER_CUBIC), np.uint8)

    half = (HEIGHT // 2, WIDTH // 2)
    return ClearFrame(plane(HEIGHT, WIDTH), plane(*half), plane(*half), 0)


def _maps(seed: int) -> tuple[Plane, Plane]:
    rng = np.random.default_rng(seed)
    shape = (1, 6, HEIGHT // 8, WIDTH // 8)
    return rng.integers(0, GATE_ONE + 1, shape, dtype=np.uint8), rng.integers(0, 26, shape, dtype=np.uint8)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.9])
def test_blocks_drawn_by_themselves_are_those_of_the_whole_picture(canvas: Canvas, share: float) -> None:
    canvas.load(_frame(1))
    last = canvas.draw(*_maps(1))
    kept = [plane.copy() for plane in last]
    canvas.load(_frame(2))
    maps = _maps(2)
    wanted = canvas.draw(*maps)
    blocks = np.random.default_rng(3).random((HEIGHT // 16, WIDTH // 16)) < share
    assert blocks.any()
    got = canvas.draw_over(last, blocks, *maps)
    for index, (plane, whole, before) in enumerate(zip(got, wanted, kept, strict=True)):
        side = 16 if index == 0 else 8
        drawn = blocks.repeat(side, 0).repeat(side, 1)
        np.testing.assert_array_equal(plane[~drawn], before[~drawn])
        np.testing.assert_array_equal(plane[drawn], whole[drawn])
    for plane, before in zip(last, kept, strict=True):
        np.testing.assert_array_equal(plane, before)  # handed out already


def test_the_gates_graph_looks_at_the_loaded_picture(canvas: Canvas) -> None:
    canvas.load(_frame(1))
    gates, thresholds, *_ = canvas.look()
    assert gates.shape == thresholds.shape == (1, 6, HEIGHT // 8, WIDTH // 8)
    assert gates.max() <= GATE_ONE
