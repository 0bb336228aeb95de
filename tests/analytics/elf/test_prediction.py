"""Where known objects will be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from analytics.elf.attention_lstm import AttentionLstm, AttentionLstmPredictor, load_network
from analytics.elf.geometry import Boxes, mutual_best, overlaps
from analytics.elf.prediction import KalmanPredictor, LastBoxPredictor, Predictor
from analytics.elf.regions import RegionTable
from base.errors import Malformed
from tests.analytics.elf.scenes import FRAME, found, walkers

ALL: list[Callable[[], Predictor]] = [LastBoxPredictor, KalmanPredictor, AttentionLstmPredictor]


def errors(make: Callable[[], Predictor], speed: float, frames: int = 40) -> tuple[float, float]:
    """Mean edge error in pixels, and how often all edges lie within three spreads, one frame ahead."""
    predictor, slots = make(), np.arange(12)
    off, held = [], []
    for index, boxes in enumerate(walkers(12, frames, speed=speed)):
        if index == 0:
            predictor.start(0, slots, boxes)
            continue
        expected = predictor.predict(index, slots, FRAME)
        if index > 10:
            off.append(np.abs(expected.boxes_xyxy - boxes).mean())
            outside = np.array([1, 1, -1, -1]) * (expected.boxes_xyxy - boxes) - 3 * expected.spread_px
            held.append((outside <= 0).all(1).mean())
        predictor.observe(index, slots, boxes, expected.boxes_xyxy)
    return float(np.mean(off)), float(np.mean(held))


@pytest.mark.parametrize("make", ALL)
def test_still_objects_are_expected_where_they_are(make: Callable[[], Predictor]) -> None:
    off, held = errors(make, speed=0.0)
    assert off < 1.2  # noise of 0.4 pixels in what is seen
    assert held > 0.97


@pytest.mark.parametrize("make", [KalmanPredictor, AttentionLstmPredictor])
def test_motion_is_predicted_better_than_by_the_last_box(make: Callable[[], Predictor]) -> None:
    assert errors(make, speed=5.0)[0] < 0.6 * errors(LastBoxPredictor, speed=5.0)[0]


@pytest.mark.parametrize("make", ALL)
def test_nearly_all_objects_lie_within_three_spreads(make: Callable[[], Predictor]) -> None:
    assert errors(make, speed=3.0)[1] > 0.93


@pytest.mark.parametrize("make", ALL)
def test_the_spread_grows_while_nothing_is_seen(make: Callable[[], Predictor]) -> None:
    predictor, slots = make(), np.arange(3)
    for index, boxes in enumerate(walkers(3, 10)):
        if index == 0:
            predictor.start(0, slots, boxes)
        else:
            predictor.observe(index, slots, boxes, predictor.predict(index, slots, FRAME).boxes_xyxy)
    soon, later = (predictor.predict(index, slots, FRAME).spread_px for index in (10, 16))
    assert (later > soon).all()


@pytest.mark.parametrize("make", ALL)
def test_no_objects_are_no_boxes(make: Callable[[], Predictor]) -> None:
    predictor, none = make(), np.zeros(0, np.intp)
    predictor.start(0, none, np.zeros((0, 4)))
    predictor.observe(1, none, np.zeros((0, 4)), np.zeros((0, 4)))
    assert predictor.predict(2, none, FRAME).boxes_xyxy.shape == (0, 4)


@pytest.mark.parametrize("make", ALL)
def test_a_slot_that_begins_anew_forgets_its_past(make: Callable[[], Predictor]) -> None:
    slots, place = np.arange(1), np.array([[300.0, 200.0, 340.0, 280.0]])
    used, fresh = make(), make()
    for index, boxes in enumerate(walkers(1, 10, speed=8)):
        if index == 0:
            used.start(0, slots, boxes)
        else:
            used.observe(index, slots, boxes, used.predict(index, slots, FRAME).boxes_xyxy)
    for predictor in (used, fresh):
        predictor.start(10, slots, place)
    one, other = (predictor.predict(11, slots, FRAME) for predictor in (used, fresh))
    np.testing.assert_array_equal(one.boxes_xyxy, other.boxes_xyxy)
    np.testing.assert_array_equal(one.spread_px, other.spread_px)


def test_a_kalman_step_is_the_matrix_one() -> None:
    """Against the textbook form with 2 x 2 matrices."""
    predictor, slots = KalmanPredictor(), np.arange(1)
    seen = [np.array([[100.0 + 3 * t, 50.0, 140.0 + 3 * t, 130.0]]) for t in (0, 1, 2, 4)]
    size, measured, drive, first = 40.0, 0.015, 0.006, 0.05
    state, covariance = np.array([100.0, 0.0]), np.diag([(measured * size) ** 2, (first * size) ** 2])
    predictor.start(0, slots, seen[0])
    for before, frame, boxes in ((0, 1, seen[1]), (1, 2, seen[2]), (2, 4, seen[3])):
        ahead = frame - before
        move = np.array([[1.0, ahead], [0.0, 1.0]])
        noise = (drive * size) ** 2 * np.array([[ahead**4 / 4, ahead**3 / 2], [ahead**3 / 2, ahead**2]])
        state, covariance = move @ state, move @ covariance @ move.T + noise
        gain = covariance[:, :1] / (covariance[0, 0] + (measured * size) ** 2)
        state = state + gain[:, 0] * (boxes[0, 0] - state[0])
        covariance = (np.eye(2) - gain @ np.array([[1.0, 0.0]])) @ covariance
        predictor.observe(frame, slots, boxes, predictor.predict(frame, slots, FRAME).boxes_xyxy)
    assert predictor.predict(5, slots, FRAME).boxes_xyxy[0, 0] == pytest.approx(state[0] + state[1])


def test_the_packaged_network_is_whole_and_small() -> None:
    network, window = load_network()
    assert window == 5
    features = np.zeros((2, window, 6), np.float32)
    assert network(features).shape == (2, 4)


def test_a_network_with_other_arrays_is_refused() -> None:
    with pytest.raises(Malformed, match="encoder"):
        AttentionLstm({}, 16)


def test_objects_keep_their_slot_while_they_move() -> None:
    table = RegionTable(KalmanPredictor())
    sent = np.ones(128, np.bool_)
    slots: list[np.ndarray[tuple[int], np.dtype[np.intp]]] = []
    chance = np.random.default_rng(3)
    for index, boxes in enumerate(apart(30)):
        order = chance.permutation(len(boxes))
        table.observe(index, FRAME, found(boxes[order]), sent)
        held = overlaps(boxes, table.boxes[table.slots]).argmax(1)
        slots.append(table.slots[held])
    assert all((each == slots[0]).all() for each in slots)


def apart(frames: int) -> list[Boxes]:
    """Four people on rows of their own, fast against their width."""
    start = np.array([[20.0 + 30 * row, 10 + 140 * row, 44 + 30 * row, 100 + 140 * row] for row in range(4)])
    step = np.array([[6.0, 0, 6, 0], [10, 0, 10, 0], [14, 0, 14, 0], [0, 0, 0, 0]])
    return [start + index * step for index in range(frames)]


def test_a_new_object_is_told_and_takes_a_free_slot() -> None:
    table, sent = RegionTable(KalmanPredictor()), np.ones(128, np.bool_)
    assert table.observe(0, FRAME, found([(10, 10, 50, 90)]), sent).tolist() == [0]
    assert table.observe(1, FRAME, found([(300, 10, 350, 90), (10, 10, 50, 90)]), sent).tolist() == [0]
    assert len(table.slots) == 2


def test_more_objects_than_slots_are_passed_over() -> None:
    table = RegionTable(KalmanPredictor())
    many = np.array([[x, y, x + 10, y + 10] for x in range(0, 600, 20) for y in range(0, 200, 20)])
    table.observe(0, FRAME, found(many), np.ones(128, np.bool_))
    assert len(table.slots) == 128


def test_mutual_best_is_greedy_choice() -> None:
    chance = np.random.default_rng(5)
    for _ in range(50):
        score = chance.random((6, 9))
        rows, columns = mutual_best(score.copy(), 0.3)
        rest, greedy = score.copy(), set()
        while rest.max() >= 0.3:
            row, column = np.unravel_index(rest.argmax(), rest.shape)
            greedy.add((int(row), int(column)))
            rest[row], rest[:, column] = -1, -1
        assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == greedy
