"""Groups of objects, and who gets which."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.elf import Policy, WorkerView
from analytics.elf.balance import fit_in, share_out
from analytics.elf.cost import Bench, tile_in_pixels
from analytics.elf.cutting import cut_edges, tile_around
from analytics.elf.dividing import Divider
from analytics.elf.geometry import Boxes
from analytics.elf.grouping import Cut, Group, group
from analytics.elf.turns import Turns
from analytics.elf.types import Tile
from tests.analytics.elf.scenes import FRAME, walkers, workers

PIXELS = FRAME[0] * FRAME[1]
POLICY = Policy()


def benches(team: list[WorkerView]) -> list[Bench]:
    return [Bench.of(worker, POLICY, PIXELS, 0.15) for worker in team]


def cut(tile_px: float = 3000.0, largest_px: float = PIXELS) -> Cut:
    return Cut(FRAME, 32, 8, tile_px, largest_px)


def grouped(boxes: Boxes, how: Cut) -> list[Group]:
    return group(boxes, np.ones(len(boxes)), how)


def padded(boxes: Boxes) -> Boxes:
    low = np.floor(np.maximum(boxes[:, :2] - 8, 0) / 8) * 8
    return np.concatenate([low, np.ceil(np.minimum(boxes[:, 2:] + 8, FRAME))], 1)


def test_neighbours_share_a_tile_and_distant_objects_do_not() -> None:
    boxes = np.array([[0, 0, 32, 64], [32, 0, 64, 64], [600, 400, 632, 464]], np.float64)
    assert sorted(each.members for each in grouped(boxes, cut(1000))) == [(0, 1), (2,)]


def test_the_fixed_cost_decides_how_many_tiles_there_are() -> None:
    boxes = np.array([[0, 0, 32, 32], [96, 0, 128, 32]], np.float64)  # a gap of 64 x 32 = 2048 pixels
    assert len(grouped(boxes, cut(2047))) == 2
    assert len(grouped(boxes, cut(2049))) == 1


def test_no_group_is_larger_than_what_somebody_may_see() -> None:
    boxes = padded(next(walkers(30, 1)))
    limit = 0.1 * PIXELS
    for each in grouped(boxes, cut(50_000, limit)):
        assert each.seen_px <= limit or len(each.members) == 1


def test_a_joined_tile_is_sent_as_large_as_its_most_demanding_object() -> None:
    boxes = np.array([[0, 0, 64, 64], [64, 0, 128, 64]], np.float64)
    (tile,) = group(boxes, np.array([0.25, 0.5]), cut(9000))
    assert tile.scale == 0.5
    assert tile_around(tile, "w", cut()).sent_wh == (64, 32)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 40), tile_px=st.floats(0, 1e5))
def test_every_object_is_in_exactly_one_group_and_whole_in_its_tile(
    seed: int, count: int, tile_px: float
) -> None:
    boxes = padded(next(walkers(count, 1, seed)))
    scales = np.random.default_rng(seed).choice([0.25, 0.375, 0.75, 1.0], count)
    how = cut(tile_px)
    groups = group(boxes, scales, how)
    assert sorted(row for each in groups for row in each.members) == list(range(count))
    for each in groups:
        tile = tile_around(each, "w", how)
        assert tile.area <= each.seen_px
        assert tile.sent_pixels <= each.sent_px
        inside = boxes[list(each.members)]
        assert (inside[:, :2] >= tile.xyxy[:2]).all()
        assert (inside[:, 2:] <= tile.xyxy[2:]).all()


def test_one_tile_goes_to_the_fastest_worker() -> None:
    team = workers(1, 4, 2)
    shared = share_out(grouped(np.array([[0.0, 0, 64, 64]]), cut()), benches(team))
    assert [len(given) for given in shared.given] == [0, 1, 0]


def test_a_slow_link_counts_as_a_slow_worker() -> None:
    team = [WorkerView("far", 1e6, bytes_per_s=1e4), WorkerView("near", 1e6)]
    shared = share_out(grouped(np.array([[0.0, 0, 64, 64]]), cut()), benches(team))
    assert [len(given) for given in shared.given] == [0, 1]


def test_a_crowd_in_one_group_is_split_between_workers() -> None:
    boxes = np.array([[x, 0, x + 32, 64] for x in range(0, 512, 32)], np.float64)
    groups = grouped(boxes, cut(5000))
    assert len(groups) == 1
    team = benches(workers(1, 1, 1, 1))
    shared = share_out(groups, team)
    assert all(shared.given)
    assert max(bench.busy_s for bench in team) < 1.3 * min(bench.busy_s for bench in team)


def exhaustive(groups: list[Group], team: list[WorkerView]) -> float:
    """The least finish time of the slowest worker over all ways to give these tiles away."""
    best = float("inf")
    for code in range(len(team) ** len(groups)):
        trial = benches(team)
        for index, each in enumerate(groups):
            trial[code // len(team) ** index % len(team)].give(each.sent_px, each.seen_px)
        best = min(best, max(bench.busy_s for bench in trial))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_slowest_worker_ends_close_to_the_best_possible(seed: int) -> None:
    team = workers(4, 2, 1)
    groups = grouped(padded(next(walkers(7, 1, seed))), cut())
    trial = benches(team)
    share_out(groups, trial)
    assert max(bench.busy_s for bench in trial) <= 1.1 * exhaustive(groups, team)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 40),
    speeds=st.lists(st.floats(0.2, 8), min_size=1, max_size=6),
)
def test_every_tile_is_given_once_and_the_times_add_up(seed: int, count: int, speeds: list[float]) -> None:
    team = benches(workers(*speeds))
    shared = share_out(grouped(padded(next(walkers(count, 1, seed))), cut()), team)
    rows = [row for given in shared.given for tile in given for row in tile.members]
    assert sorted(rows) == list(range(count))
    assert not shared.refused
    for bench, mine, fresh in zip(team, shared.given, benches(workers(*speeds)), strict=True):
        for tile in mine:
            fresh.give(tile.sent_px, tile.seen_px)
        assert bench.busy_s == pytest.approx(fresh.busy_s)
        assert bench.room_px == pytest.approx(fresh.room_px)


@pytest.mark.parametrize(("count", "least"), [(24, 0.9), (6, 0.8)])
def test_workers_of_4_2_1_1_are_busy_alike_over_time(count: int, least: float) -> None:
    """The issue's bar: within 20 %, better within 10 %, though the true costs are not the believed ones."""
    believed, true_pixel_s = workers(4, 2, 1, 1), np.array([1.1, 0.95, 1.05, 0.9])
    busy = np.zeros(4)
    turns = Turns(2.0)
    for boxes in walkers(count, 150, speed=4):
        team = benches(believed)
        idle = [bench.busy_s for bench in team]
        turns.begin(team)
        shared = share_out(grouped(padded(boxes), cut(tile_in_pixels(team))), team)
        turns.end(team, idle)
        for index, mine in enumerate(shared.given):
            pixels = sum(tile.sent_px for tile in mine)
            busy[index] += len(mine) * 0.003 + pixels * team[index].pixel_s * true_pixel_s[index]
    assert busy.min() >= (least - 0.1) * busy.max()  # 0.1: what beliefs were off; the pool learns that


def test_a_box_at_a_tiles_inner_border_is_cut_unless_another_tile_goes_on() -> None:
    tiles = [Tile(0, 0, 100, 100, "a"), Tile(80, 0, 100, 100, "b")]
    boxes = np.array([[40, 20, 99, 60], [100, 20, 179, 60], [0, 0, 30, 99], [85, 20, 98, 60]], np.float64)
    cuts = cut_edges(boxes, tiles, FRAME)
    assert cuts.tolist() == [
        [False, False, False, False],  # the second tile goes on where the first one ends
        [False, False, True, False],
        [False, False, False, True],  # at the bottom; left and top are the frame's own
        [False, False, False, False],  # whole in the second tile
    ]


def crowd(count: int, seed: int, largest: int = 200) -> Boxes:
    """Padded objects that overlap each other in one part of the frame."""
    chance = np.random.default_rng(seed)
    low = chance.integers(0, 20, (count, 2)) * 16.0
    high = np.minimum(low + chance.integers(24, largest, (count, 2)), FRAME)
    return np.concatenate([low, high], 1)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(2, 24),
    speeds=st.lists(st.floats(0.2, 8), min_size=1, max_size=6),
    share=st.floats(0.2, 1),
)
def test_what_is_divided_keeps_every_object_whole_and_every_share(
    seed: int, count: int, speeds: list[float], share: float
) -> None:
    boxes, scales = crowd(count, seed), np.random.default_rng(seed).choice([0.5, 1.0], count)
    team = [Bench.of(one, Policy(max_share=share), PIXELS, 0.15) for one in workers(*speeds)]
    how = cut(tile_in_pixels(team), share * PIXELS)
    shared = share_out(group(boxes, scales, how), team, Divider(boxes, scales, how))
    rows = [row for mine in [*shared.given, shared.refused] for each in mine for row in each.members]
    assert sorted(rows) == list(range(count))
    for bench, mine in zip(team, shared.given, strict=True):
        tiles = [tile_around(each, bench.name, how) for each in mine]
        assert sum(tile.area for tile in tiles) <= share * PIXELS + 1e-6
        for tile, each in zip(tiles, mine, strict=True):
            inside = boxes[list(each.members)]
            assert (inside[:, :2] >= tile.xyxy[:2]).all()
            assert (inside[:, 2:] <= tile.xyxy[2:]).all()
            assert tile.sent_pixels <= each.sent_px


def test_dividing_never_makes_a_frame_longer_and_makes_dense_crowds_faster() -> None:
    gain = []
    for seed in range(20):
        boxes, ones, finish = crowd(24, seed), np.ones(24), []
        for divider in (None, Divider(boxes, ones, cut())):
            team = benches(workers(1, 1, 1, 1))
            share_out(group(boxes, ones, cut()), team, divider)
            finish.append(max(bench.busy_s for bench in team))
        gain.append(finish[1] / finish[0])
    assert max(gain) <= 1 + 1e-9
    assert np.mean(gain) < 0.8  # 0.69 where it was measured


def test_two_overlapping_cars_go_to_two_workers_in_tiles_that_overlap() -> None:
    boxes = np.array([[0, 0, 256, 160], [192, 96, 448, 256], [96, 32, 128, 64]], np.float64)
    how = cut(40000.0)
    (joined,) = group(boxes, np.ones(3), how)
    team = benches(workers(1, 1))
    shared = share_out([joined], team, Divider(boxes, np.ones(3), how))
    members = sorted(each.members for given in shared.given for each in given)
    assert members == [(0, 2), (1,)]  # what lies within the first car's tile is sent with it
    assert max(bench.busy_s for bench in team) < 0.6 * benches(workers(1))[0].time_s(joined.sent_px)


def test_a_filler_waits_until_nobody_waits_for_it_or_it_must_be_sent() -> None:
    (filler,) = grouped(np.array([[0.0, 0, 64, 64]]), cut())
    (large,) = grouped(np.array([[100.0, 100, 400, 400]]), cut())
    team = benches(workers(1))
    shared = share_out([large], team)
    assert not fit_in(filler, shared, team, must=False)
    assert fit_in(filler, shared, team, must=True)
    team = benches(workers(1, 1))
    shared = share_out([large], team)
    assert fit_in(filler, shared, team, must=False)
    assert [len(given) for given in shared.given] == [1, 1]
    assert fit_in(filler, share_out([], benches(workers(1))), benches(workers(1)), must=False)


def test_what_workers_tell_they_worked_evens_out_wrong_beliefs() -> None:
    """The second worker really needs 1.5 times as long: alone, plans would keep it busy so much longer."""
    truth = {"w0": 1.0, "w1": 1.5}

    def spread(*, told: bool) -> float:
        busy, turns = dict.fromkeys(truth, 0.0), Turns(2.0)
        for boxes in walkers(16, 80, speed=3):
            team = benches(workers(1, 1))
            idle = [bench.busy_s for bench in team]
            turns.begin(team)
            share_out(grouped(padded(boxes), cut()), team)
            turns.end(team, idle)
            worked = {
                one.name: truth[one.name] * (one.busy_s - begun)
                for one, begun in zip(team, idle, strict=True)
            }
            busy = {name: busy[name] + worked[name] for name in busy}
            if told:
                turns.worked(worked)
        return min(busy.values()) / max(busy.values())

    assert spread(told=False) < 0.75
    assert spread(told=True) > 0.85


def test_a_worker_that_tells_nothing_is_judged_by_its_plans() -> None:
    turns, team = Turns(2.0), benches(workers(1, 1))
    idle = [bench.busy_s for bench in team]
    turns.begin(team)
    share_out(grouped(np.array([[0.0, 0, 320, 320]]), cut()), team)
    turns.end(team, idle)
    turns.worked({})
    (first,) = [index for index, bench in enumerate(team) if bench.busy_s > idle[index]]
    again = benches(workers(1, 1))
    turns.begin(again)
    assert again[first].busy_s > again[1 - first].busy_s
