from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import veilcam.assets
from evaluation.pictures import from_video_frame
from models.object_finder import (
    MAX_OBJECTS,
    MIN_SCORE,
    FoundObjects,
    ObjectFinder,
    decode,
    look_side,
    read_object_finder,
)
from models.yolox_head import STRIDES, anchor_grid

SAMPLE = Path(veilcam.assets.__file__).with_name("sample.mp4")
SIZE_HW = (96, 128)
NO_SCALE = np.ones(2)
NUM_ANCHORS = sum((SIZE_HW[0] // stride) * (SIZE_HW[1] // stride) for stride in STRIDES)
GRID = anchor_grid(SIZE_HW[::-1])

# Drawn round them by hand in the sample's first picture: three people and a van.
BY_HAND_XYXY = np.array(
    [(674, 298, 714, 421), (541, 226, 571, 314), (460, 213, 484, 301), (652, 44, 721, 99)]
)


def _overlaps(found: FoundObjects, box_xyxy: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Intersection over union of every box with this one."""
    boxes = found.boxes_xyxy.astype(np.float64)
    first, last = np.maximum(boxes[:, :2], box_xyxy[:2]), np.minimum(boxes[:, 2:], box_xyxy[2:])
    shared = (last - first).clip(0).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1), (box_xyxy[2:] - box_xyxy[:2]).prod()
    return np.asarray(shared / (areas[0] + areas[1] - shared))


@pytest.fixture(scope="module")
def picture() -> av.VideoFrame:
    with av.open(str(SAMPLE)) as container:
        return next(container.decode(container.streams.video[0]))


def _found_in_planes(picture: av.VideoFrame) -> FoundObjects:
    frame = from_video_frame(picture)
    finder = ObjectFinder(read_object_finder(), frame.height, frame.width, threads=1)
    return finder(frame.luma_hw, frame.cb_hw, frame.cr_hw)


def test_people_and_cars_of_a_real_picture_are_found(picture: av.VideoFrame) -> None:
    found = _found_in_planes(picture)
    sure = FoundObjects(*(values[found.scores > 0.5] for values in found))
    for box in BY_HAND_XYXY:
        assert _overlaps(sure, box).max() > 0.7
    assert (np.diff(found.scores) <= 0).all()
    *people, van = (sure.plated[_overlaps(sure, box) > 0.7] for box in BY_HAND_XYXY)
    assert van.max() > 0.5
    assert max(scores.max() for scores in people) < 0.05


def test_an_rgb_picture_gives_what_the_cameras_planes_give(picture: av.VideoFrame) -> None:
    finder = ObjectFinder(read_object_finder(), picture.height, picture.width, threads=1)
    found = finder.in_rgb(np.asarray(picture.to_ndarray(format="rgb24"), np.uint8))
    for box in BY_HAND_XYXY:
        assert found.scores[_overlaps(found, box) > 0.7].max() > 0.5


def test_nothing_is_found_in_a_grey_wall() -> None:
    wall = np.full((240, 320, 3), 120, np.uint8)
    assert (ObjectFinder(read_object_finder(), 240, 320, threads=1).in_rgb(wall).scores < 0.05).all()


@pytest.mark.parametrize(
    ("size_hw", "side"),
    [((480, 640), 416), ((720, 1280), 427), ((1080, 1920), 640), ((1920, 1080), 640), ((2160, 3840), 640)],
)
def test_large_pictures_are_looked_at_in_more_detail(size_hw: tuple[int, int], side: int) -> None:
    assert look_side(*size_hw) == side


def _answer() -> npt.NDArray[np.float32]:
    return np.zeros((NUM_ANCHORS, 7), np.float32)


def test_a_box_is_read_as_the_paper_writes_it() -> None:
    answer = _answer()
    first_of_16 = (SIZE_HW[0] // 8) * (SIZE_HW[1] // 8)
    row, column = 2, 5
    answer[first_of_16 + row * (SIZE_HW[1] // 16) + column] = (
        0.5,
        0.25,
        np.log(2),
        np.log(3),
        0.9,
        0.5,
        0.25,
    )
    found = decode(answer, GRID, np.array([2.0, 3.0]))
    # Middle (5.5, 2.25) strides, size 2 by 3 strides of 16, then pixels of the picture.
    wanted = [(5.5 - 1) * 16 * 2, (2.25 - 1.5) * 16 * 3, (5.5 + 1) * 16 * 2, (2.25 + 1.5) * 16 * 3]
    np.testing.assert_allclose(found.boxes_xyxy, [wanted], rtol=1e-6)
    np.testing.assert_allclose(found.scores, [0.45], rtol=1e-6)
    np.testing.assert_allclose(found.plated, [0.225], rtol=1e-6)


any_float = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(deadline=None)
@given(arrays(np.float32, (NUM_ANCHORS, 7), elements=any_float, fill=any_float))
def test_whatever_a_network_answers_gives_at_most_so_many_finite_boxes(
    answer: npt.NDArray[np.float32],
) -> None:
    with np.errstate(all="ignore"):
        found = decode(answer, GRID, NO_SCALE)
    assert len(found.scores) == len(found.boxes_xyxy) <= MAX_OBJECTS
    assert ((found.scores >= MIN_SCORE) & (found.scores <= 1)).all()
    assert ((found.plated >= 0) & (found.plated <= found.scores)).all()
    assert (found.boxes_xyxy[:, 2:] >= found.boxes_xyxy[:, :2]).all() or not np.isfinite(answer).all()


def test_the_surest_are_kept_when_there_are_too_many() -> None:
    answer = _answer()
    answer = np.repeat(answer, 3, 0)[:NUM_ANCHORS]
    answer[:, 4] = 1
    answer[:, 5] = np.linspace(0.02, 0.9, NUM_ANCHORS)
    wanted = min(MAX_OBJECTS, NUM_ANCHORS)
    np.testing.assert_allclose(decode(answer, GRID, NO_SCALE).scores, answer[::-1, 5][:wanted], rtol=1e-6)
