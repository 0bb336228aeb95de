"""What changed pixels tell the planner."""

from __future__ import annotations

import numpy as np
import pytest

from analytics.elf import Planner, Policy
from analytics.elf.changes import FrameChanges, changed_cells, shrink
from analytics.elf.geometry import whole_within
from analytics.elf.motion import ChangeMap
from base.errors import UsageError
from tests.analytics.elf.scenes import FRAME, answer, found, planner_that_knows, workers

TEAM = workers(1, 1)
POLICY = Policy(sweep_share=0)
CELLS = (18, 24)  # of 32 pixels in 576 x 768
PERSON = (320.0, 160.0, 370.0, 280.0)


def picture(*spots: tuple[int, int, int, int]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Grey with a little fixed noise, and white rectangles."""
    noise = np.random.default_rng(1).integers(-3, 4, FRAME[::-1])
    luma = (100 + noise).astype(np.uint8)
    for left, top, right, bottom in spots:
        luma[top:bottom, left:right] = 235
    return luma


def nothing() -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    return np.zeros(CELLS, np.bool_)


def test_cells_that_changed_are_found_and_no_others() -> None:
    changed = changed_cells(shrink(picture()), shrink(picture((64, 96, 90, 120))), cell=32)
    assert changed.shape == CELLS
    assert np.argwhere(changed).tolist() == [[3, 2]]


def test_noise_is_no_change() -> None:
    one = picture()
    other = (one.astype(int) + np.random.default_rng(2).integers(-6, 7, one.shape)).astype(np.uint8)
    assert not changed_cells(shrink(one), shrink(other), cell=32).any()


def test_the_first_frame_and_another_size_tell_nothing() -> None:
    changes = FrameChanges(32)
    assert changes.update(picture()) is None
    assert changes.update(picture()[:240, :320]) is None
    again = changes.update(picture()[:240, :320])
    assert again is not None
    assert not again.any()


def test_odd_sizes_have_their_last_cells() -> None:
    luma = np.zeros((130, 99), np.uint8)
    other = luma.copy()
    other[128:, 96:] = 255
    changed = changed_cells(shrink(luma), shrink(other), cell=32)
    assert changed.shape == (5, 4)
    assert np.argwhere(changed).tolist() == [[4, 3]]


def test_pictures_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="uint8"):
        shrink(np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(UsageError, match="one size"):
        changed_cells(shrink(np.zeros((64, 64), np.uint8)), shrink(np.zeros((64, 96), np.uint8)), cell=32)
    with pytest.raises(UsageError, match="multiple of 4"):
        changed_cells(shrink(picture()), shrink(picture()), cell=30)


def test_a_still_object_is_not_sent_and_stands_as_it_was() -> None:
    planner = planner_that_knows([PERSON], Planner(POLICY), TEAM)
    plan = planner.plan(1, FRAME, TEAM, nothing())
    assert not plan.tiles
    assert [(each.reason, each.box_xyxy) for each in plan.skipped] == [("quiet", PERSON)]
    merged = answer(plan, found([PERSON]))
    np.testing.assert_array_equal(merged.boxes_xyxy, [PERSON])


def test_a_still_object_is_sent_when_something_changes_there() -> None:
    planner = planner_that_knows([PERSON], Planner(POLICY), TEAM)
    planner.plan(1, FRAME, TEAM, nothing())
    changed = nothing()
    changed[6, 10] = True
    plan = planner.plan(2, FRAME, TEAM, changed)
    holders = np.array([tile.xyxy for tile in plan.tiles], np.float64)
    assert whole_within(np.array([PERSON]), holders).any()
    assert not plan.skipped


def test_a_change_before_the_result_was_known_is_not_forgotten() -> None:
    planner = planner_that_knows([PERSON], Planner(POLICY), TEAM)
    changed = nothing()
    changed[6, 10] = True
    plan = planner.plan(1, FRAME, TEAM, changed)
    planner.plan(2, FRAME, TEAM, changed)  # moves on while frame 1 is at the workers
    planner.observe(1, answer(plan, found([PERSON])))
    assert planner.plan(3, FRAME, TEAM, nothing()).tiles


def test_still_objects_are_looked_at_again_now_and_then() -> None:
    planner = planner_that_knows([PERSON], Planner(POLICY), TEAM)
    sent = []
    for index in range(1, 60):
        plan = planner.plan(index, FRAME, TEAM, nothing())
        sent += [index] if plan.tiles else []
        planner.observe(index, answer(plan, found([PERSON])))
    assert 1 <= len(sent) <= 4


def test_motion_that_no_object_explains_is_sent_at_once() -> None:
    planner = planner_that_knows([PERSON], Planner(POLICY), TEAM)
    newcomer = (608.0, 400.0, 660.0, 500.0)
    changed = nothing()
    changed[12:16, 19:21] = True
    plan = planner.plan(1, FRAME, TEAM, changed)
    holders = np.array([tile.xyxy for tile in plan.tiles], np.float64)
    assert whole_within(np.array([newcomer]), holders).any()


def test_an_objects_own_motion_proposes_nothing() -> None:
    changes = ChangeMap(32)
    changes.resize(FRAME)
    changed = nothing()
    changed[5:9, 10:12] = True
    changes.take(1, changed)
    assert not len(changes.propose(1, np.array([[310.0, 150.0, 380.0, 290.0]])))


def test_leaves_in_the_wind_are_sent_ever_more_seldom() -> None:
    planner = planner_that_knows([], Planner(POLICY), TEAM)
    changed = nothing()
    changed[3:5, 3:6] = True
    sent = []
    for index in range(1, 61):
        plan = planner.plan(index, FRAME, TEAM, changed)
        sent += [index] if plan.tiles else []
        planner.observe(index, answer(plan, found([])))
    assert sent[:2] == [1, 3]
    assert (np.diff(np.diff(sent)) >= 0).all()
    assert len(sent) <= 8


def test_at_most_sixteen_moving_patches_are_sent() -> None:
    changes = ChangeMap(32)
    changes.resize(FRAME)
    changed = nothing()
    changed[::2, ::2] = True  # 108 single cells
    changes.take(1, changed)
    assert len(changes.propose(1, np.zeros((0, 4)))) == 16


def test_a_change_everywhere_is_the_light_and_not_objects() -> None:
    planner = planner_that_knows([PERSON], Planner(POLICY), TEAM)
    plan = planner.plan(1, FRAME, TEAM, np.ones(CELLS, np.bool_))
    assert len(plan.tiles) == 1  # the known person alone, who may have moved
    assert not plan.skipped


def test_the_planner_sees_frames_itself() -> None:
    planner = Planner(POLICY)
    planner.see(picture())
    planner.plan(0, FRAME, TEAM)
    planner.observe(0, found([PERSON]))
    planner.see(picture())
    assert not planner.plan(1, FRAME, TEAM).tiles
    planner.see(picture((608, 400, 660, 500)))
    assert planner.plan(2, FRAME, TEAM).tiles


def test_a_map_of_another_size_is_refused() -> None:
    with pytest.raises(UsageError, match="cells"):
        planner_that_knows([], Planner(POLICY), TEAM).plan(1, FRAME, TEAM, np.zeros((3, 3), np.bool_))
