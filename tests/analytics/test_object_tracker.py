from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from analytics.detections import DetectionRow
from analytics.events import Counts, Event, ObjectEvent
from analytics.object_tracker import MAX_OBJECTS, ObjectTracker, TrackerRules, overlap


def row(left: float, label: str = "person", score: float = 0.8) -> DetectionRow:
    return DetectionRow(label=label, score=score, box_xyxy=[left, 10.0, left + 20, 60.0])


def changes(events: list[Event]) -> list[str]:
    return [event.change for event in events if isinstance(event, ObjectEvent)]


def counts(events: list[Event]) -> list[dict[str, int]]:
    return [event.by_label for event in events if isinstance(event, Counts)]


def test_an_object_is_told_at_its_second_picture_then_once_a_second_and_at_its_end() -> None:
    tracker = ObjectTracker("gate")
    told = [changes(tracker.push(100 + 0.25 * n, [row(10 + n)])) for n in range(8)]
    assert told == [[], ["new"], [], [], [], ["update"], [], []]
    assert changes(tracker.push(103.7, [])) == []  # 1.95 s unseen
    end = tracker.push(104.0, [])
    assert changes(end) == ["end"]
    event = end[0]
    assert isinstance(event, ObjectEvent)
    assert (event.after.start_s, event.after.end_s, event.after.box_xyxy) == (100, 101.75, (17, 10, 37, 60))


def test_a_single_picture_makes_no_event() -> None:
    tracker = ObjectTracker("gate")
    assert tracker.push(1, [row(10)]) == []
    assert tracker.push(9, []) == []


def test_the_same_object_keeps_its_id_and_another_gets_another() -> None:
    tracker = ObjectTracker("gate", TrackerRules(update_every_s=0))
    tracker.push(1, [row(0), row(200)])
    first = [e for e in tracker.push(1.1, [row(203), row(3)]) if isinstance(e, ObjectEvent)]
    second = [e for e in tracker.push(1.2, [row(6), row(206)]) if isinstance(e, ObjectEvent)]
    by_place = {e.after.box_xyxy[0] // 100: e.after.object_id for e in first}
    assert len(set(by_place.values())) == 2
    assert {e.after.box_xyxy[0] // 100: e.after.object_id for e in second} == by_place


def test_counts_are_told_when_they_change_and_a_label_that_has_gone_counts_zero() -> None:
    tracker = ObjectTracker("gate")
    tracker.push(1, [row(0), row(100), row(300, "car")])
    assert counts(tracker.push(1.1, [row(0), row(100), row(300, "car")])) == [{"car": 1, "person": 2}]
    assert counts(tracker.push(1.2, [row(0), row(100), row(300, "car")])) == []
    assert counts(tracker.push(3.15, [row(0)])) == [{"car": 1, "person": 2}][:0]
    assert counts(tracker.push(3.3, [row(0)])) == [{"car": 0, "person": 1}]
    assert counts(tracker.finish(4)) == [{"car": 0, "person": 0}]


def test_the_top_score_is_the_highest_so_far() -> None:
    tracker = ObjectTracker("gate", TrackerRules(update_every_s=0))
    tracker.push(1, [row(0, score=0.5)])
    tracker.push(2, [row(0, score=0.9)])
    event = tracker.push(3, [row(0, score=0.6)])[0]
    assert isinstance(event, ObjectEvent)
    assert (event.after.score, event.after.top_score) == (0.6, 0.9)


def test_overlap_is_the_shared_share_of_the_union() -> None:
    assert overlap((0, 0, 10, 10), (5, 0, 15, 10)) == 50 / 150
    assert overlap((0, 0, 10, 10), (10, 0, 20, 10)) == 0.0
    assert overlap((0, 0, 10, 10), (0, 0, 10, 10)) == 1.0


@given(
    st.lists(
        st.lists(st.tuples(st.floats(0, 500), st.sampled_from(["person", "car"])), max_size=6), max_size=12
    )
)
def test_every_object_begins_once_and_ends_once(pictures: list[list[tuple[float, str]]]) -> None:
    tracker = ObjectTracker("gate")
    events: list[Event] = []
    for number, boxes in enumerate(pictures):
        events += tracker.push(100 + number, [row(left, label) for left, label in boxes])
    events += tracker.finish(200)
    ids = {kind: [] for kind in ("new", "update", "end")}  # type: dict[str, list[str]]
    for event in events:
        if isinstance(event, ObjectEvent):
            ids[event.change].append(event.after.object_id)
    assert sorted(ids["new"]) == sorted(ids["end"])
    assert len(set(ids["new"])) == len(ids["new"])
    assert set(ids["update"]) <= set(ids["new"])


def test_the_number_of_objects_is_bounded() -> None:
    tracker = ObjectTracker("gate")
    many = [row(1000.0 * n) for n in range(MAX_OBJECTS + 50)]
    tracker.push(1, many)
    events = tracker.push(1.1, many)
    assert counts(events) == [{"person": MAX_OBJECTS}]
