"""What the planner is told and what it answers."""

from __future__ import annotations

from typing import Any

import pytest

from analytics.elf import FramePlan, Policy, Tile, WorkerView
from base.errors import UsageError


def test_a_tile_knows_its_edges_and_what_is_sent() -> None:
    tile = Tile(10, 20, 100, 50, "w", 0.5)
    assert tile.xyxy == (10, 20, 110, 70)
    assert (tile.area, tile.sent_wh, tile.sent_pixels) == (5000, (50, 25), 1250)


@pytest.mark.parametrize(
    "values",
    [(-1, 0, 10, 10), (0, -1, 10, 10), (0, 0, 0, 10), (0, 0, 10, 0), (16000, 0, 1000, 10)],
)
def test_tiles_outside_any_frame_are_refused(values: tuple[int, int, int, int]) -> None:
    with pytest.raises(UsageError, match="tile"):
        Tile(*values, "w")


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5, float("nan")])
def test_scales_are_above_0_and_at_most_1(scale: float) -> None:
    with pytest.raises(UsageError, match="scale"):
        Tile(0, 0, 10, 10, "w", scale)


@pytest.mark.parametrize(
    "values",
    [
        {"pixels_per_s": 0.0},
        {"pixels_per_s": float("inf")},
        {"pixels_per_s": 1.0, "bytes_per_s": 0.0},
        {"pixels_per_s": 1.0, "delay_s": -1.0},
        {"pixels_per_s": 1.0, "fixed_s": float("nan")},
        {"pixels_per_s": 1.0, "max_share": 1.1},
    ],
)
def test_workers_with_impossible_figures_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="worker w"):
        WorkerView("w", **values)


@pytest.mark.parametrize(
    "values",
    [
        {"max_share": 1.5},
        {"look_scale": 0.0},
        {"sweep_share": -0.1},
        {"look_every": (5, 3)},
        {"look_every": (0, 3)},
        {"stride": 0},
        {"align": 24},
        {"margin": -1},
        {"min_side": -1},
        {"scales": (0.5,)},
        {"scales": (1.0, 0.5, 1.0)},
        {"scales": ()},
        {"bytes_per_pixel": 0.0},
    ],
)
def test_policies_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="policy"):
        Policy(**values)


def test_the_least_of_both_shares_binds_unless_a_worker_is_trusted() -> None:
    policy = Policy(max_share=0.5)
    assert policy.share_of(WorkerView("w", 1.0, max_share=0.8)) == 0.5
    assert policy.share_of(WorkerView("w", 1.0, max_share=0.2)) == 0.2
    assert policy.share_of(WorkerView("w", 1.0, max_share=0.8, trusted=True)) == 0.8


def test_a_plan_ends_when_its_slowest_worker_does() -> None:
    assert FramePlan((), predicted_finish_s={"a": 0.1, "b": 0.3}).finish_s == 0.3
    assert FramePlan(()).finish_s == 0.0
