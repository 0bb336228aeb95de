from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilcam.assets
from base.errors import UsageError
from base.frames import ClearFrame
from evaluation.pictures import from_video_frame
from models import Background, Strength, background_named, load_protector
from models.background import (
    BACKGROUND_CORING,
    KEPT_FINDS,
    REACH_PX,
    REACH_SHARE,
    SURE_SCORE,
    BackgroundMemory,
    Floor,
    floor_around,
    with_floor,
)
from models.object_finder import MIN_SCORE, NO_OBJECTS, FoundObjects
from models.pyramid import GATE_ONE
from models.strength import background_octaves
from models.video import BACKGROUND_PERIOD_S, FIND_OBJECTS_EVERY

SAMPLE = Path(veilcam.assets.__file__).with_name("sample.mp4")
BLOCKS_HW = (20, 30)
ON_A_PERSON, ON_THE_GRASS = np.s_[310:400, 684:704], np.s_[470:560, 250:420]


def _found(*boxes: tuple[float, float, float, float], score: float = 0.9) -> FoundObjects:
    scores = np.full(len(boxes), score, np.float32)
    return FoundObjects(np.array(boxes, np.float32).reshape(-1, 4), scores, np.zeros_like(scores))


def _scene() -> ClearFrame:
    with av.open(str(SAMPLE)) as container:
        return from_video_frame(next(container.decode(container.streams.video[0])))


def test_where_nothing_is_all_octaves_are_lost() -> None:
    np.testing.assert_array_equal(floor_around(NO_OBJECTS, BLOCKS_HW, 3), np.full(BLOCKS_HW, 3 * GATE_ONE))


def test_an_object_and_what_it_reaches_stay_as_they_are() -> None:
    floor = floor_around(_found((96, 80, 136, 120)), BLOCKS_HW, 3)
    reach = REACH_PX + REACH_SHARE * 40
    first, last = int((96 - reach) // 8), int(-(-(136 + reach) // 8))
    assert (floor[10:15, 12:17] == 0).all()
    inside = np.zeros(BLOCKS_HW, bool)
    inside[int((80 - reach) // 8) : int(-(-(120 + reach) // 8)), first:last] = True
    np.testing.assert_array_equal(floor == 0, inside)
    assert set(np.unique(floor)) == {0, 3 * GATE_ONE}


def test_a_doubtful_object_is_made_coarse_by_as_much_as_it_is_doubted() -> None:
    halfway = (SURE_SCORE + MIN_SCORE) / 2
    levels = [
        int(floor_around(_found((96, 80, 136, 120), score=score), BLOCKS_HW, 4)[12, 14]) / GATE_ONE
        for score in (MIN_SCORE, halfway, SURE_SCORE, 1.0)
    ]
    assert levels == [4, 2, 0, 0]


@pytest.mark.parametrize(("score", "octaves"), [(SURE_SCORE, 3), (0.2, 1.5), (0.3, 0), (0.9, 0)])
def test_what_covers_most_of_the_picture_must_be_surer(score: float, octaves: float) -> None:
    floor = floor_around(_found((-5, -5, 200, 155), score=score), BLOCKS_HW, 3)
    assert floor[10, 10] / GATE_ONE == pytest.approx(octaves, abs=0.5)


def test_of_objects_that_overlap_the_surest_counts() -> None:
    both = _found(*[(96, 80, 136, 120)] * 2)._replace(scores=np.array([0.9, MIN_SCORE], np.float32))
    assert floor_around(both, BLOCKS_HW, 3)[12, 14] == 0


@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 4), max_size=5), st.floats(0, 1))
def test_boxes_may_lie_anywhere(boxes: list[tuple[float, float, float, float]], score: float) -> None:
    floor = floor_around(_found(*boxes, score=score), BLOCKS_HW, 3)
    assert floor.shape == BLOCKS_HW
    assert floor.min() >= 0
    assert floor.max() <= 3 * GATE_ONE


@given(st.integers(0, 2**32 - 1))
def test_the_background_only_ever_shuts_gates_and_cores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gates, thresholds = rng.integers(0, GATE_ONE + 1, (2, 1, 6, 4, 5), dtype=np.uint8)
    floor = rng.integers(0, 5 * GATE_ONE, (4, 5)).astype(np.int16)
    shut, cored = with_floor(gates, thresholds, floor)
    assert (shut <= gates).all()
    assert (cored >= thresholds).all()


def test_as_many_of_the_finest_bands_are_shut_as_octaves_are_lost() -> None:
    opened, uncored = np.full((1, 6, 1, 3), GATE_ONE, np.uint8), np.zeros((1, 6, 1, 3), np.uint8)
    floor = np.array([[0, 3 * GATE_ONE, GATE_ONE // 2]], np.int16)
    shut, cored = with_floor(opened, uncored, floor)
    np.testing.assert_array_equal(
        shut[0, :, 0].T / GATE_ONE, [[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0.5, 1, 1, 1, 1, 1]]
    )
    wanted = [0, BACKGROUND_CORING, BACKGROUND_CORING // 2]
    np.testing.assert_array_equal(cored[0, :, 0], [wanted] * 6)
    assert with_floor(opened, uncored, None) == (opened, uncored)


def _look(*columns: int) -> Floor:
    """Octaves 3 but for an object in these columns."""
    floor = np.full((5, 12), 3 * GATE_ONE, np.int16)
    floor[:, list(columns)] = 0
    return floor


def _octaves_at(memory: BackgroundMemory, column: int) -> float:
    assert memory.in_force is not None
    return float(memory.in_force[2, column]) / GATE_ONE


def test_an_object_is_sharp_with_its_first_look_and_coarse_when_all_kept_looks_miss_it() -> None:
    memory = BackgroundMemory()
    assert memory.in_force is None
    memory.add(_look())
    memory.add(_look(4))
    seen = [_octaves_at(memory, 4)]
    for _ in range(KEPT_FINDS):
        memory.add(_look())
        seen.append(_octaves_at(memory, 4))
    assert seen == [0] * KEPT_FINDS + [3]


def test_between_two_looks_an_object_may_move_by_a_block() -> None:
    memory = BackgroundMemory()
    memory.add(_look(4))
    assert [_octaves_at(memory, column) for column in range(2, 7)] == [3, 0, 0, 0, 3]


@pytest.mark.parametrize(
    ("name", "pixels", "wanted"),
    [
        (None, False, Background.COARSE),
        (None, True, Background.FINE),
        ("coarse", True, Background.COARSE),
        ("fine", False, Background.FINE),
    ],
)
def test_the_background_is_as_told_or_fine_with_the_pixel_path(
    name: str | None, pixels: bool, wanted: Background
) -> None:
    assert background_named(name, pixels=pixels) is wanted


def test_another_name_is_refused() -> None:
    with pytest.raises(UsageError, match="'blurred'"):
        background_named("blurred", pixels=False)


def _detail(luma: npt.NDArray[np.uint8]) -> float:
    return float(np.abs(cv2.Laplacian(luma, cv2.CV_32F)).mean())


def test_people_stay_as_they_were_and_the_grass_becomes_coarse() -> None:
    frame = _scene()
    fine, coarse = (
        load_protector(threads=1, background=background).protect_with_map(frame)
        for background in (Background.FINE, Background.COARSE)
    )
    assert _detail(coarse[0].luma_hw[ON_A_PERSON]) > 0.9 * _detail(fine[0].luma_hw[ON_A_PERSON])
    assert _detail(coarse[0].luma_hw[ON_THE_GRASS]) < 0.5 * _detail(fine[0].luma_hw[ON_THE_GRASS])
    assert (coarse[1].gates <= fine[1].gates).all()
    assert coarse[1].cell_size()[520 // 8, 300 // 8] >= 8
    assert coarse[1].cell_size()[330 // 8, 692 // 8] == fine[1].cell_size()[330 // 8, 692 // 8]


@pytest.mark.parametrize("strength", list(Strength))
def test_a_strength_says_how_coarse(strength: Strength) -> None:
    frame = _scene()
    _, gates = load_protector(threads=1, strength=strength).protect_with_map(frame)
    assert gates.cell_size()[520 // 8, 300 // 8] >= 2 ** background_octaves(strength)


def test_a_person_that_comes_into_a_held_background_is_soon_as_sharp_as_if_all_were() -> None:
    scene = _scene()
    empty = scene.luma_hw.copy()
    empty[290:430, 664:724] = scene.luma_hw[430:570, 560:620]  # grass over the man
    fine, coarse = (
        load_protector(threads=1, refresh=2, hold=True, background=background)
        for background in (Background.FINE, Background.COARSE)
    )
    block = (350 // 8, 692 // 8)
    for index in range(14):
        luma = empty if index < 8 else scene.luma_hw
        frame = ClearFrame(luma, scene.cb_hw, scene.cr_hw, 40_000 * index)
        wanted, seen = (one.protect_with_map(frame)[1].cell_size()[block] for one in (fine, coarse))
        if index < 8:
            assert seen >= 8
        elif index >= 8 + 2 * FIND_OBJECTS_EVERY:
            assert seen == wanted < 8


def _flickering(scene: ClearFrame, index: int, place: tuple[slice, slice], step_us: int) -> ClearFrame:
    """``scene`` with a place that is of another lightness in every picture; eleven differ."""
    luma = scene.luma_hw.copy()
    luma[place] = np.clip(luma[place].astype(int) + 14 * (4 * index % 11), 0, 255)
    return ClearFrame(luma, scene.cb_hw, scene.cr_hw, step_us * index)


@pytest.mark.parametrize("step_us", [40_000, 125_000, 300_000])
def test_a_coarse_background_follows_no_more_often_than_its_period(step_us: int) -> None:
    scene = _scene()
    protector = load_protector(threads=1, refresh=2, hold=True)
    followed, before = [], None
    for index in range(30):
        shown = protector.protect(_flickering(scene, index, ON_THE_GRASS, step_us)).luma_hw[ON_THE_GRASS]
        if before is not None and not np.array_equal(shown, before):
            followed.append(index)
        before = shown.copy()
    gaps_us = step_us * np.diff(followed)
    assert (gaps_us >= BACKGROUND_PERIOD_S * 1e6).all()
    assert (gaps_us < BACKGROUND_PERIOD_S * 1e6 + step_us).all()
    assert len(followed) >= 4


def test_people_do_not_wait_with_the_background() -> None:
    scene = _scene()
    protector = load_protector(threads=1, refresh=2, hold=True)
    shown = [
        float(protector.protect(_flickering(scene, index, ON_A_PERSON, 40_000)).luma_hw[ON_A_PERSON].mean())
        for index in range(8)
    ]
    assert (np.abs(np.diff(shown)) > 20).all()


def test_where_times_stand_still_or_run_back_no_background_waits() -> None:
    scene = _scene()
    for step_us in (0, -40_000):
        protector = load_protector(threads=1, refresh=2, hold=True)
        shown = [
            protector.protect(_flickering(scene, index, ON_THE_GRASS, step_us)).luma_hw[ON_THE_GRASS].mean()
            for index in range(6)
        ]
        assert (np.abs(np.diff(shown)) > 20).all()
