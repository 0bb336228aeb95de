"""What the planner is told, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from analytics.detections import Detections
from analytics.elf.types import FramePlan, Tile, WorkerView
from analytics.pool.memory import Answered, Memory, with_new
from analytics.pool.result import OutcomeKind, TileOutcome
from tests.support.edge_worker import NAMES, frame_of

WH = (640, 384)
WORKERS = [WorkerView("w", 1e6)]


@dataclass
class Notes:
    """A planner that writes down what it hears."""

    heard: list[tuple[int, list[list[float]]]] = field(default_factory=list)

    def plan(self, frame_index: int, frame_wh: tuple[int, int], workers: list[WorkerView]) -> FramePlan:
        return FramePlan((Tile(0, 0, *frame_wh, workers[0].name),))

    def observe(self, frame_index: int, merged: Detections) -> None:
        self.heard.append((frame_index, sorted(merged.boxes_xyxy.tolist())))


def found(*boxes: list[float]) -> Detections:
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.full(len(boxes), 0.9, np.float32),
        np.zeros(len(boxes), np.int64),
        NAMES,
    )


def outcome(kind: OutcomeKind, boxes: Detections | None, *, look: bool = False) -> TileOutcome:
    tile = Tile(0, 0, *WH, "w", 0.5 if look else 1.0)
    return TileOutcome(tile, look, kind, "w", 0.1, 100, 0.05, 0, 0, boxes)


def frame(index: int, *outcomes: TileOutcome) -> Answered:
    return Answered(
        index, WH, FramePlan(tuple(one.tile for one in outcomes if not one.is_look)), list(outcomes)
    )


OLD, NEW = [10.0, 10.0, 60.0, 90.0], [300.0, 100.0, 360.0, 200.0]
SMALL_NEW = [150.0, 50.0, 180.0, 100.0]  # as the look shows it, at half the size
LOOK = outcome("answered", found(SMALL_NEW), look=True)
PENDING = outcome("pending", None, look=True)
TILE = outcome("answered", found(OLD))


def memory() -> tuple[Memory, Notes]:
    notes = Notes()
    return Memory(notes, 0.3), notes


def test_boxes_are_given_out_before_the_look_and_the_planner_hears_of_both_together() -> None:
    told, notes = memory()
    given = told.take(frame(0, TILE, PENDING), None, NAMES)
    assert given.boxes_xyxy.tolist() == [OLD]
    assert notes.heard == []
    told.plan(frame_of([]), 1, WORKERS, LOOK, NAMES)
    assert notes.heard == [(0, [OLD, NEW])]
    told.take(frame(1, TILE), None, NAMES)
    assert notes.heard[1:] == [(1, [OLD])]


def test_a_look_that_ends_with_the_next_frame_is_heard_of_before_it() -> None:
    told, notes = memory()
    told.take(frame(0, TILE, PENDING), None, NAMES)
    told.plan(frame_of([]), 1, WORKERS, None, NAMES)
    told.take(frame(1, TILE), LOOK, NAMES)
    assert notes.heard == [(0, [OLD, NEW]), (1, [OLD])]


def test_a_look_that_ends_later_still_tells_of_what_is_new() -> None:
    told, notes = memory()
    told.take(frame(0, TILE, PENDING), None, NAMES)
    told.take(frame(1, TILE), None, NAMES)
    told.plan(frame_of([]), 2, WORKERS, LOOK, NAMES)
    given = told.take(frame(2, TILE), None, NAMES)
    assert notes.heard == [(0, [OLD]), (1, [OLD]), (2, [OLD, NEW])]
    assert given.boxes_xyxy.tolist() == [OLD]  # an old look's box is for planning, not for show


def test_what_was_in_a_tile_that_nobody_answered_is_believed_to_be_there() -> None:
    told, notes = memory()
    left = TileOutcome(Tile(0, 0, 320, 384, "w"), False, "missing", "", 0.5, 100, None, 1, 0, None)
    right = TileOutcome(Tile(320, 0, 320, 384, "w"), False, "answered", "w", 0.1, 100, None, 0, 0, found())
    told.take(frame(0, TILE), None, NAMES)
    given = told.take(frame(1, left, right), None, NAMES)
    assert len(given) == 0
    assert notes.heard[-1] == (1, [OLD])


def test_a_frame_that_nobody_answered_teaches_nothing() -> None:
    told, notes = memory()
    told.take(frame(0, TILE), None, NAMES)
    told.take(frame(1, outcome("missing", None)), None, NAMES)
    assert [index for index, _ in notes.heard] == [0]


def test_an_object_that_has_moved_a_little_is_not_new() -> None:
    moved = [OLD[0] + 20, OLD[1], OLD[2] + 20, OLD[3]]
    assert len(with_new(found(OLD), found(moved))) == 1
    assert len(with_new(found(OLD), found(NEW))) == 2
    assert with_new(found(), found(NEW)) == found(NEW)
