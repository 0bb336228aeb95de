from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from analytics import DetectorConfig, load_detector
from analytics.detect import DetectProgress, run
from analytics.live_stream import LiveFrames
from analytics.stream import open_frames
from base.errors import UsageError
from tests.analytics.clips import TINY_YOLOX, annexb_units, red_square, write_clip
from tests.analytics.units import ScriptedUnits

PLACES = [(0, 0), (32, 0), (0, 32), (32, 32), (0, 0), (32, 32)]
DETECTOR = load_detector(TINY_YOLOX, DetectorConfig(min_score=0.8))


@pytest.fixture
def clip(tmp_path: Path) -> str:
    path = tmp_path / "clip.mp4"
    write_clip(path, [red_square(*place) for place in PLACES], [0, 100, 200, 450, 500, 600])
    return str(path)


def largest(result: object) -> list[float]:
    """The box of the stride-32 cell, to whole pixels."""
    assert isinstance(result, dict)
    found = max(result["detections"], key=lambda one: one["box_xyxy"][2] - one["box_xyxy"][0])
    return [round(edge) for edge in found["box_xyxy"]]


def test_every_picture_gives_one_json_line_with_its_place_in_the_stream(clip: str) -> None:
    results = [json.loads(json.dumps(result)) for result in run(clip, DETECTOR)]
    assert [result["frame"] for result in results] == list(range(6))
    assert [result["time_s"] for result in results] == pytest.approx([0, 0.1, 0.2, 0.45, 0.5, 0.6], abs=1e-4)
    assert {(result["width"], result["height"]) for result in results} == {(64, 64)}
    assert [largest(result) for result in results] == [[x, y, x + 32, y + 32] for x, y in PLACES]
    assert set(results[0]["detections"][0]) == {"label", "score", "box_xyxy"}


def test_every_second_picture_only(clip: str) -> None:
    assert [result["frame"] for result in run(clip, DETECTOR, every=2)] == [0, 2, 4]


def test_other_labels_are_left_out_but_the_line_stays(clip: str) -> None:
    results = list(run(clip, DETECTOR, labels=["class_0"]))
    assert [result["detections"] for result in results] == [[]] * 6


def test_a_label_that_the_detector_does_not_know_is_refused(clip: str) -> None:
    with pytest.raises(UsageError, match=r"tiny_yolox\.onnx does not know zebra"):
        next(iter(run(clip, DETECTOR, labels=["zebra", "class_0"])))


def test_progress_counts_up_to_the_total(clip: str) -> None:
    seen: list[DetectProgress] = []
    for _ in run(clip, DETECTOR, every=3, on_progress=seen.append):
        pass
    assert seen == [DetectProgress(1, 0, 6, 0), DetectProgress(2, 3, 6, 0)]


def test_the_annotated_file_has_the_analysed_pictures_at_their_times(clip: str, tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    times = [result["time_s"] for result in run(clip, DETECTOR, annotate=out)]
    with open_frames(str(out)) as stream:
        assert [frame.time_s for frame in stream] == pytest.approx(times, abs=1e-4)


def test_setting_stop_ends_the_run_with_a_whole_file(clip: str, tmp_path: Path) -> None:
    stop, out, frames = threading.Event(), tmp_path / "out.mp4", []
    for result in run(clip, DETECTOR, annotate=out, stop=stop):
        frames.append(result["frame"])
        if result["frame"] == 2:
            stop.set()
    assert frames == [0, 1, 2]
    with open_frames(str(out)) as stream:
        assert sum(1 for _ in stream) == 3


def test_a_live_session_runs_like_a_file() -> None:
    session = ScriptedUnits(annexb_units([red_square(*place) for place in PLACES]))
    results = list(run(LiveFrames(session.opened, queue_frames=10), DETECTOR))
    assert [largest(result) for result in results] == [[x, y, x + 32, y + 32] for x, y in PLACES]
    assert session.closed
