from __future__ import annotations

import numpy as np
import pytest

from base.frames import ClearFrame
from models import load_protector, read_card
from models.card import WEIGHTS, read_weights
from models.protector import CARD, REDRAW_GRAPH
from models.redraw import QUIET, Redrawer


@pytest.fixture(scope="module")
def redrawer() -> Redrawer:
    graph = read_weights(read_card(WEIGHTS / CARD), REDRAW_GRAPH)
    trial = (np.zeros((1, 1, 128, 192), np.uint8), np.zeros((1, 2, 64, 96), np.uint8))
    return Redrawer(graph, trial, threads=1)


@pytest.mark.parametrize("level", [30, 90, 128, 170, 220])
def test_a_flat_picture_stays_flat_so_that_it_costs_the_encoder_nothing(
    redrawer: Redrawer, level: int
) -> None:
    luma = np.full((1, 1, 128, 192), level, np.uint8)
    chroma = np.full((1, 2, 64, 96), 128, np.uint8)
    drawn, cb, cr = redrawer(luma, chroma)
    inner = np.s_[8:-8, 8:-8]
    assert np.ptp(drawn[inner]) == 0
    assert np.ptp(cb[inner]) == 0
    assert np.ptp(cr[inner]) == 0
    assert abs(int(drawn[64, 64]) - level) <= 1


def test_changes_too_small_to_see_are_left_out_and_larger_ones_are_not(redrawer: Redrawer) -> None:
    rng = np.random.default_rng(3)
    luma = np.repeat(np.repeat(rng.integers(0, 256, (1, 1, 16, 24), dtype=np.uint8), 8, 2), 8, 3)
    chroma = np.full((1, 2, 64, 96), 128, np.uint8)
    drawn = redrawer(luma, chroma)[0]
    change = np.abs(drawn.astype(np.int16) - luma[0, 0])
    unclipped = (drawn > 0) & (drawn < 255)
    assert not np.isin(change[unclipped], range(1, QUIET + 1)).any()
    assert change.max() > QUIET


def test_planes_of_another_size_follow_without_a_trace_of_the_first(redrawer: Redrawer) -> None:
    rng = np.random.default_rng(4)
    small = rng.integers(0, 256, (1, 1, 64, 64), dtype=np.uint8)
    chroma = np.full((1, 2, 32, 32), 128, np.uint8)
    wanted = redrawer(small, chroma)[0]
    redrawer(np.full((1, 1, 128, 192), 9, np.uint8), np.full((1, 2, 64, 96), 128, np.uint8))
    np.testing.assert_array_equal(redrawer(small, chroma)[0], wanted)


def test_the_protector_keeps_a_grey_wall_grey() -> None:
    wall = np.full((128, 192), 120, np.uint8)
    chroma = np.full((64, 96), 128, np.uint8)
    drawn = load_protector(threads=1).protect(ClearFrame(wall, chroma, chroma, 0))
    assert np.ptp(drawn.luma_hw[8:-8, 8:-8]) == 0
