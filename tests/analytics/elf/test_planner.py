"""Plans for frames, from what was found before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.elf import LOCAL, Planner, Policy, WorkerView
from analytics.elf.geometry import whole_within
from analytics.elf.planner import Padding
from analytics.elf.types import FramePlan
from base.errors import UsageError
from tests.analytics.elf.scenes import FRAME, answer, found, planner_that_knows, walkers, workers

TEAM = workers(1, 1, 1, 1)
QUIET = Policy(sweep_share=0)


def holders(plan: FramePlan) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array([tile.xyxy for tile in plan.tiles], np.float64).reshape(-1, 4)


def test_at_first_the_whole_frame_goes_to_the_fastest_worker() -> None:
    plan = Planner().plan(0, FRAME, workers(1, 3, 2))
    assert plan.covers_all
    assert [(tile.xyxy, tile.worker) for tile in plan.tiles] == [((0, 0, *FRAME), "w1")]


def test_small_frames_always_go_whole_to_one_worker_after_the_other() -> None:
    planner = planner_that_knows(
        [(100, 100, 140, 200)], Planner(Policy(smallest_cut_px=FRAME[0] * FRAME[1] + 1)), TEAM
    )
    turns = []
    for index in range(1, 9):
        plan = planner.plan(index, FRAME, TEAM)
        assert plan.covers_all
        turns += [tile.worker for tile in plan.tiles]
        planner.observe(index, answer(plan, found([(100, 100, 140, 200)])))
    assert len(turns) == 8
    assert {turns.count(worker.name) for worker in TEAM} == {2}


def test_at_first_cells_cover_the_frame_where_nobody_may_see_it_all() -> None:
    plan = Planner(Policy(max_share=0.3)).plan(0, FRAME, TEAM)
    seen = np.zeros(FRAME[::-1], bool)
    for tile in plan.tiles:
        seen[tile.top : tile.bottom, tile.left : tile.right] = True
    assert seen.all()
    assert plan.covers_all


def test_without_workers_everything_is_local() -> None:
    planner = planner_that_knows([(100, 100, 140, 200)], Planner(), [])
    plan = planner.plan(1, FRAME, [])
    assert {tile.worker for tile in plan.all_tiles} == {LOCAL}


def test_an_empty_scene_needs_no_tiles_but_looks() -> None:
    planner = planner_that_knows([], Planner(QUIET), TEAM)
    looks = []
    for index in range(1, 100):
        plan = planner.plan(index, FRAME, TEAM)
        assert not plan.tiles
        looks += [index] if plan.look else []
        planner.observe(index, answer(plan, found([])))
    gaps = np.diff(looks)
    assert looks[0] <= QUIET.look_every[0] + 1
    assert gaps.max() == QUIET.look_every[1]  # grows while nothing comes
    assert (np.diff(gaps) >= 0).all()


def test_known_objects_lie_whole_in_one_tile_each() -> None:
    total = whole = 0
    planner = Planner(QUIET)
    for index, boxes in enumerate(walkers(16, 60)):
        plan = planner.plan(index, FRAME, TEAM)
        if index > 3:
            total += len(boxes)
            whole += int(whole_within(boxes, holders(plan)).any(1).sum())
        planner.observe(index, answer(plan, found(boxes)))
    assert whole >= 0.998 * total


def test_results_that_come_two_frames_late_still_keep_objects_whole() -> None:
    total = whole = 0
    planner, waiting = Planner(QUIET), []
    for index, boxes in enumerate(walkers(12, 60, speed=3)):
        plan = planner.plan(index, FRAME, TEAM)
        if index > 6:
            total += len(boxes)
            whole += int(whole_within(boxes, holders(plan)).any(1).sum())
        waiting.append((index, answer(plan, found(boxes))))
        if len(waiting) > 2:
            planner.observe(*waiting.pop(0))
    assert whole >= 0.99 * total


def test_far_less_than_the_frame_is_sent() -> None:
    planner = planner_that_knows([(100, 100, 140, 200), (500, 300, 540, 400)], Planner(QUIET), TEAM)
    plan = planner.plan(1, FRAME, TEAM)
    assert sum(tile.sent_pixels for tile in plan.tiles) < 0.1 * FRAME[0] * FRAME[1]


def test_new_objects_are_found_within_one_frame_of_the_next_look() -> None:
    late = []
    for appears in range(5, 25, 3):
        planner = Planner(QUIET)
        newcomer = np.array([[600.0, 100.0, 640.0, 200.0]])
        spotted, bound = None, 0
        for index, boxes in enumerate(walkers(3, 40, seed=appears)):
            truth = found(np.concatenate([boxes, newcomer]) if index >= appears else boxes)
            plan = planner.plan(index, FRAME, TEAM)
            bound = planner.look_every if index == appears else bound
            if index >= appears and spotted is None:
                spotted = index if whole_within(newcomer, holders(plan)).any() else None
            planner.observe(index, answer(plan, truth))
        assert spotted is not None
        late.append(spotted - appears > bound + 1)
    assert not any(late)


def test_an_object_that_a_tile_cuts_gets_more_room_next_time() -> None:
    planner = planner_that_knows([(300, 200, 340, 280)], Planner(QUIET), TEAM)
    grown = found([(300, 200, 430, 420)])  # it was a piece: the person is much larger
    plan = planner.plan(1, FRAME, TEAM)
    assert not whole_within(grown.boxes_xyxy.astype(np.float64), holders(plan)).any()
    for index in range(2, 8):
        planner.observe(index - 1, answer(plan, grown))
        plan = planner.plan(index, FRAME, TEAM)
    assert whole_within(grown.boxes_xyxy.astype(np.float64), holders(plan)).any()


def test_what_has_gone_is_no_longer_sent() -> None:
    planner = planner_that_knows([(300, 200, 340, 280)], Planner(QUIET), TEAM)
    for index in range(1, 12):
        plan = planner.plan(index, FRAME, TEAM)
        planner.observe(index, answer(plan, found([])))
    assert planner.num_regions == 0


def test_an_object_that_is_missed_twice_is_still_looked_for() -> None:
    planner = Planner(QUIET)
    box = [(300, 200, 340, 280)]
    for index in range(8):
        plan = planner.plan(index, FRAME, TEAM)
        planner.observe(index, answer(plan, found([] if index in {5, 6} else box)))
    assert whole_within(np.array(box, np.float64), holders(planner.plan(8, FRAME, TEAM))).any()


def test_the_sweep_shows_every_part_of_the_frame_at_full_size() -> None:
    planner = planner_that_knows([], Planner(Policy(sweep_share=0.05)), TEAM)
    seen = np.zeros(FRAME[::-1], bool)
    for index in range(1, 60):
        plan = planner.plan(index, FRAME, TEAM)
        for tile in plan.tiles:
            assert tile.scale == 1
            seen[tile.top : tile.bottom, tile.left : tile.right] = True
        planner.observe(index, answer(plan, found([])))
    assert seen.all()


def test_stale_unplanned_and_repeated_results_are_passed_over() -> None:
    planner = planner_that_knows([(300, 200, 340, 280)], Planner(QUIET), TEAM)
    for index in (1, 2, 3):
        planner.plan(index, FRAME, TEAM)
    planner.observe(3, found([(300, 200, 340, 280)]))
    for index in (2, 3, 99, -5):
        planner.observe(index, found([(10, 10, 50, 90)] * 5))
    assert planner.num_regions == 1


def test_another_frame_size_begins_anew() -> None:
    planner = planner_that_knows([(300, 200, 340, 280)], Planner(QUIET), TEAM)
    assert planner.plan(1, (320, 240), TEAM).covers_all
    assert planner.num_regions == 0


def test_frames_must_rise_and_names_differ() -> None:
    planner = Planner()
    planner.plan(5, FRAME, TEAM)
    with pytest.raises(UsageError, match="after 5"):
        planner.plan(5, FRAME, TEAM)
    with pytest.raises(UsageError, match="different names"):
        planner.plan(6, FRAME, [TEAM[0], TEAM[0]])


def test_the_look_follows_policy() -> None:
    team = [WorkerView("open", 9e6), WorkerView("ours", 1e6, trusted=True)]

    def who(policy: Policy) -> str | None:
        planner = planner_that_knows([], Planner(policy), team)
        for index in range(1, 9):
            look = planner.plan(index, FRAME, team).look
            if look:
                return look.worker
            planner.observe(index, found([]))
        return None

    assert who(Policy(sweep_share=0)) == "open"
    assert who(Policy(sweep_share=0, look="trusted")) == "ours"
    assert who(Policy(sweep_share=0, look="local")) == LOCAL
    assert who(Policy(sweep_share=0, max_share=0.5)) == "ours"  # no other may see so much
    assert who(Policy(sweep_share=0, look="local", local_detector=False)) is None


def test_an_object_that_nobody_may_see_stays_here_or_is_skipped() -> None:
    big = [(50, 50, 700, 550)]
    here = planner_that_knows(big, Planner(Policy(max_share=0.25, sweep_share=0)), TEAM).plan(1, FRAME, TEAM)
    assert {tile.worker for tile in here.tiles} == {LOCAL}
    policy = Policy(max_share=0.25, sweep_share=0, local_detector=False)
    nowhere = planner_that_knows(big, Planner(policy), TEAM).plan(1, FRAME, TEAM)
    assert not nowhere.tiles
    assert [each.reason for each in nowhere.skipped] == ["policy"]


def test_the_camera_itself_may_see_everything() -> None:
    team = [*TEAM, WorkerView(LOCAL, 1e5)]
    policy = Policy(max_share=0.25, sweep_share=0)
    assert policy.share_of(team[-1]) == 1
    plan = planner_that_knows([(50, 50, 700, 550)], Planner(policy), team).plan(1, FRAME, team)
    assert {tile.worker for tile in plan.tiles} == {LOCAL}
    assert plan.predicted_finish_s[LOCAL] > 1  # what it costs there is told


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 40),
    share=st.floats(0, 1),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    wh=st.tuples(st.integers(48, 1000), st.integers(128, 800)),
    min_side=st.sampled_from((0, 48)),
)
def test_no_worker_ever_sees_more_of_a_frame_than_it_may(
    *,
    seed: int,
    count: int,
    share: float,
    shares: list[float],
    wh: tuple[int, int],
    min_side: int,
) -> None:
    policy = Policy(max_share=share, min_side=min_side)
    team = [WorkerView(f"w{i}", 1e6 * (i + 1), max_share=each) for i, each in enumerate(shares)]
    planner = Planner(policy)
    for index, boxes in enumerate(walkers(count, 6, seed, frame_wh=wh)):
        plan = planner.plan(index, wh, team)
        for worker in team:
            seen = np.zeros(wh[::-1], bool)
            for tile in plan.all_tiles:
                assert tile.right <= wh[0]
                assert tile.bottom <= wh[1]
                if tile.worker == worker.name:
                    seen[tile.top : tile.bottom, tile.left : tile.right] = True
            assert seen.mean() <= min(worker.max_share, share) + 1e-12
        planner.observe(index, answer(plan, found(boxes), wh))


def test_the_same_calls_give_the_same_plans() -> None:
    def plans() -> list[FramePlan]:
        planner, result = Planner(), []
        for index, boxes in enumerate(walkers(20, 20)):
            result.append(planner.plan(index, FRAME, TEAM))
            planner.observe(index, answer(result[-1], found(boxes)))
        return result

    assert plans() == plans()


def test_bytes_per_pixel_follow_what_tiles_took() -> None:
    planner = Planner(Policy(bytes_per_pixel=0.1))
    for _ in range(60):
        planner.learn_bytes(1000, 300)
    assert planner.bytes_per_pixel == pytest.approx(0.3, rel=0.02)
    planner.learn_bytes(0, 100)


def test_what_is_seen_twice_in_one_place_needs_no_room_of_its_own() -> None:
    """A car that is a lorry now and then: the second opinion is missed, but no tile grows for it."""
    car, lorry = (200, 200, 400, 320), (205, 190, 420, 330)
    once = planner_that_knows([car], Planner(QUIET), TEAM)
    twice = planner_that_knows([car, lorry], Planner(QUIET), TEAM)
    for index in range(1, 4):
        sizes = []
        for planner in (once, twice):
            plan = planner.plan(index, FRAME, TEAM)
            sizes.append(sum(tile.area for tile in plan.tiles))
            planner.observe(index, found([car]))
        assert sizes[1] <= (1.35 if index == 1 else 1.0) * sizes[0]


def test_what_was_found_once_and_stands_still_is_looked_at_again_soon() -> None:
    """A mistake of the detector in one tile must not be carried for as long as a proven object."""
    box, still = (300, 200, 340, 280), np.zeros((18, 24), bool)

    def sent(times_found: int) -> list[int]:
        planner = Planner(QUIET)
        plans = []
        for index in range(times_found + 24):
            plan = planner.plan(index, FRAME, TEAM, None if index < times_found else still)
            plans.append(plan)
            planner.observe(index, found([box]) if index < times_found else answer(plan, found([])))
        return [index - times_found for index in range(times_found, len(plans)) if plans[index].tiles]

    assert sent(1)[0] == 5
    assert sent(2) == []


@pytest.mark.parametrize(
    ("frame_wh", "least"), [((1280, 720), 12), ((640, 360), 12), ((400, 400), 14), ((320, 240), 18)]
)
def test_small_objects_get_room_for_context_and_more_of_it_in_small_frames(
    frame_wh: tuple[int, int], least: int
) -> None:
    box = (150, 110, 170, 140)
    planner = Planner(QUIET)
    planner.plan(0, frame_wh, TEAM)
    planner.observe(0, found([box]))
    (tile,) = planner.plan(1, frame_wh, TEAM).tiles
    room = [box[0] - tile.left, box[1] - tile.top, tile.right - box[2], tile.bottom - box[3]]
    assert min(room) >= QUIET.margin + least
    side, margin = Padding().small_in(frame_wh)
    assert int(margin) == least
    assert side == pytest.approx(margin * 8 / 3)
