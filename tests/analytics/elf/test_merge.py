"""One picture's detections from its tiles' answers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.detections import Detections
from analytics.elf import Skipped, Tile, merge
from analytics.elf.geometry import overlaps
from analytics.interface import DetectorConfig
from base.errors import UsageError

NAMES = ("person", "car")
FRAME = (640, 480)
CONFIG = DetectorConfig(min_score=0.1)


def found(*rows: tuple[float, float, float, float], score: float = 0.8, class_id: int = 0) -> Detections:
    count = len(rows)
    return Detections(
        np.array(rows, np.float32).reshape(-1, 4),
        np.full(count, score, np.float32),
        np.full(count, class_id),
        NAMES,
    )


def tile(left: int, top: int, width: int, height: int, scale: float = 1.0) -> Tile:
    return Tile(left, top, width, height, "w", scale)


def test_boxes_move_to_the_tiles_place() -> None:
    merged = merge(FRAME, [(tile(100, 50, 200, 100), found((10, 20, 60, 80)))])
    np.testing.assert_array_equal(merged.boxes_xyxy, [[110, 70, 160, 130]])


def test_boxes_of_a_smaller_picture_grow_to_the_frame() -> None:
    half = tile(100, 50, 200, 100, 0.5)
    assert half.sent_wh == (100, 50)
    merged = merge(FRAME, [(half, found((10, 20, 30, 40)))])
    np.testing.assert_array_equal(merged.boxes_xyxy, [[120, 90, 160, 130]])


def test_uneven_rounding_of_the_sent_size_is_undone_for_each_axis() -> None:
    odd = tile(0, 0, 333, 111, 0.5)
    width, height = odd.sent_wh
    merged = merge(FRAME, [(odd, found((0, 0, width, height)))])
    np.testing.assert_allclose(merged.boxes_xyxy, [[0, 0, 333, 111]], atol=1e-3)


def test_an_object_in_two_overlapping_tiles_is_told_once() -> None:
    left, right = tile(0, 0, 300, 200), tile(200, 0, 300, 200)
    merged = merge(FRAME, [(left, found((220, 50, 280, 150))), (right, found((21, 51, 79, 149)))])
    assert len(merged) == 1


def test_two_objects_of_different_classes_in_one_place_both_stay() -> None:
    whole = tile(0, 0, *FRAME)
    merged = merge(FRAME, [(whole, found((10, 10, 90, 90))), (whole, found((10, 10, 90, 90), class_id=1))])
    assert sorted(merged.labels) == ["car", "person"]


def test_a_stronger_piece_gives_way_to_the_whole_box() -> None:
    cutting, holding = tile(0, 0, 100, 200), tile(50, 0, 150, 200)
    piece, whole = found((60, 20, 100, 180), score=0.95), found((10, 20, 90, 180), score=0.4)
    merged = merge(FRAME, [(cutting, piece), (holding, whole)])
    np.testing.assert_array_equal(merged.boxes_xyxy, [[60, 20, 140, 180]])
    assert merged.scores[0] == np.float32(0.4)


def test_a_box_at_the_frames_own_border_is_whole() -> None:
    at_border = tile(0, 0, 200, 200)
    inside = tile(0, 0, 640, 480, 0.5)
    merged = merge(FRAME, [(at_border, found((0, 20, 60, 180), score=0.5)), (inside, found((0, 10, 29, 91)))])
    np.testing.assert_array_equal(merged.boxes_xyxy, [[0, 20, 60, 180]])  # the sharp tile's box


def test_pieces_on_both_sides_of_a_border_become_one_box() -> None:
    left, right = tile(0, 0, 100, 200), tile(100, 0, 100, 200)
    merged = merge(FRAME, [(left, found((60, 20, 100, 180))), (right, found((0, 22, 50, 178), score=0.6))])
    np.testing.assert_array_equal(merged.boxes_xyxy, [[60, 20, 150, 180]])
    assert merged.scores[0] == np.float32(0.8)


def test_four_quarters_become_one_box() -> None:
    cells = [tile(x, y, 100, 100) for x in (0, 100) for y in (0, 100)]
    quarters = [(100 - 40, 100 - 30), (100 - 40, 0), (0, 100 - 30), (0, 0)]
    parts = [(cell, found((x, y, x + 40, y + 30))) for cell, (x, y) in zip(cells, quarters, strict=True)]
    np.testing.assert_array_equal(merge(FRAME, parts).boxes_xyxy, [[60, 70, 140, 130]])


def test_two_people_on_both_sides_of_a_border_stay_two() -> None:
    left, right = tile(0, 0, 100, 200), tile(100, 0, 100, 200)
    merged = merge(FRAME, [(left, found((60, 0, 100, 60))), (right, found((0, 120, 50, 190)))])
    assert len(merged) == 2


def test_a_piece_with_nothing_else_is_better_than_nothing() -> None:
    merged = merge(FRAME, [(tile(0, 0, 100, 200), found((60, 20, 100, 180)))])
    assert len(merged) == 1


def test_what_stands_still_is_carried_and_what_policy_forbids_is_not() -> None:
    still = Skipped((10.0, 10.0, 50.0, 90.0), 0.7, 1, "quiet")
    forbidden = Skipped((300.0, 10.0, 350.0, 90.0), 0.7, 0, "policy")
    merged = merge(FRAME, [], CONFIG, skipped=[still, forbidden], names=NAMES)
    assert merged.labels == ("car",)
    np.testing.assert_array_equal(merged.boxes_xyxy, [[10, 10, 50, 90]])


def test_no_parts_are_no_detections() -> None:
    assert len(merge(FRAME, [], CONFIG, names=NAMES)) == 0


def test_answers_by_different_detectors_are_refused() -> None:
    whole = tile(0, 0, *FRAME)
    with pytest.raises(UsageError, match="class names"):
        merge(FRAME, [(whole, found((1, 1, 9, 9))), (whole, Detections.empty(("dog",)))])


@st.composite
def answers(draw: st.DrawFn) -> list[tuple[Tile, Detections]]:
    parts = []
    for _ in range(draw(st.integers(1, 5))):
        left, top = draw(st.integers(0, 600)), draw(st.integers(0, 440))
        width, height = draw(st.integers(1, FRAME[0] - left)), draw(st.integers(1, FRAME[1] - top))
        one = tile(left, top, width, height, draw(st.sampled_from((0.25, 0.5, 1.0))))
        count = draw(st.integers(0, 6))
        corner = draw(st.lists(st.floats(0, 1), min_size=4 * count, max_size=4 * count))
        edges = np.array(corner).reshape(count, 2, 2) * one.sent_wh
        boxes = np.concatenate([edges.min(1), edges.max(1)], 1)
        scores = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
        classes = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
        parts.append((one, Detections(boxes, np.array(scores), np.array(classes, np.int64), NAMES)))
    return parts


@settings(deadline=None, max_examples=50)
@given(parts=answers(), chance=st.randoms(use_true_random=False))
def test_the_order_of_the_answers_does_not_matter(
    parts: list[tuple[Tile, Detections]], chance: Random
) -> None:
    mixed = [(one, all_of[chance.sample(range(len(all_of)), len(all_of))]) for one, all_of in parts]
    chance.shuffle(mixed)
    assert merge(FRAME, mixed, CONFIG) == merge(FRAME, parts, CONFIG)


@settings(deadline=None, max_examples=50)
@given(parts=answers())
def test_nothing_is_outside_the_frame_told_twice_or_made_up(parts: list[tuple[Tile, Detections]]) -> None:
    merged = merge(FRAME, parts, CONFIG)
    assert (merged.boxes_xyxy >= 0).all()
    assert (merged.boxes_xyxy <= np.array(FRAME * 2)).all()
    assert len(merged) <= sum(len(each) for _, each in parts)
    assert (np.diff(merged.scores) <= 0).all()
    for class_id in (0, 1):
        boxes = merged.boxes_xyxy[merged.class_ids == class_id].astype(np.float64)
        twice = overlaps(boxes, boxes)
        np.fill_diagonal(twice, 0)
        assert (twice <= CONFIG.max_overlap_iou + 1e-4).all()
