from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from analytics import Detections
from analytics.annotate import AnnotatedVideo, draw
from analytics.stream import open_frames
from base.errors import UsageError
from tests.analytics.clips import Picture

NAMES = ("person", "bicycle", "car")


def boxes(*edges: tuple[float, float, float, float], class_id: int = 0) -> Detections:
    count = len(edges)
    scores, class_ids = np.full(count, 0.87, np.float32), np.full(count, class_id, np.int64)
    return Detections(np.array(edges, np.float32).reshape(-1, 4), scores, class_ids, NAMES)


def grey(width: int = 320, height: int = 240) -> Picture:
    return np.full((height, width, 3), 60, np.uint8)


def changed(picture: Picture, found: Detections) -> Picture:
    """Where drawing changed the picture: bool [H, W]."""
    mask: Picture = (draw(picture, found) != picture).any(2)
    return mask


def test_the_outline_lies_on_the_box_and_the_inside_stays() -> None:
    mask = changed(grey(), boxes((100, 80, 200, 180)))
    assert mask[80:181, 100].all()
    assert mask[80:181, 200].all()
    assert mask[80, 100:201].all()
    assert mask[180, 100:201].all()
    assert not mask[84:177, 104:197].any()


@pytest.mark.parametrize("box", [(0, 0, 40, 40), (300, 0, 320, 50), (250, 200, 320, 240), (5, 230, 9, 240)])
def test_the_label_is_whole_wherever_the_box_lies(box: tuple[float, float, float, float]) -> None:
    middle = draw(grey(), boxes((100, 80, 200, 180)))
    rows, columns = np.nonzero(changed(grey(), boxes((100, 80, 200, 180)))[:79])
    label = middle[rows.min() : 79, columns.min() : columns.max() + 1]
    assert label.shape[0] > 10
    assert label.shape[1] > 60
    difference = cv2.matchTemplate(draw(grey(), boxes(box)), label, cv2.TM_SQDIFF)
    assert difference.min() == pytest.approx(0, abs=1)


def test_classes_have_their_own_colours_and_the_input_is_left_alone() -> None:
    picture = grey()
    found = [
        draw(picture, boxes((100, 80, 200, 180), class_id=index))[180, 150].tolist() for index in range(3)
    ]
    assert len({tuple(colour) for colour in found}) == 3
    assert (picture == grey()).all()


def test_a_picture_without_detections_is_the_same() -> None:
    assert not changed(grey(), Detections.empty(NAMES)).any()


def test_the_video_keeps_every_time_and_shows_the_boxes(tmp_path: Path) -> None:
    times = [0.0, 0.04, 0.5, 0.5333, 2.0]
    with AnnotatedVideo(tmp_path / "out.mp4") as video:
        for time_s in times:
            video.write(grey(), boxes((100, 80, 200, 180)), time_s)
    with open_frames(str(tmp_path / "out.mp4")) as stream:
        frames = list(stream)
    assert [frame.time_s for frame in frames] == pytest.approx(times, abs=1e-4)
    expected = draw(grey(), boxes((100, 80, 200, 180)))
    assert all(np.abs(frame.image_bgr_hwc.astype(int) - expected).mean() < 4 for frame in frames)


def test_ffprobe_sees_a_plain_h264_file(tmp_path: Path) -> None:
    path = tmp_path / "out.mp4"
    with AnnotatedVideo(path) as video:
        for index in range(5):
            video.write(grey(), boxes((10, 10, 50, 50)), index / 10)
    entries = "stream=codec_name,pix_fmt,width,height:format=nb_streams"
    command = ["ffprobe", "-v", "error", "-show_entries", entries, "-of", "csv=p=0", str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True)
    assert output.stdout.split() == ["h264,320,240,yuv420p", "1"]
    assert output.stderr == ""


def test_odd_and_changing_sizes_fit_the_first_picture(tmp_path: Path) -> None:
    with AnnotatedVideo(tmp_path / "out.mp4") as video:
        video.write(grey(321, 241), boxes((10, 10, 50, 50)), 0.0)
        video.write(grey(160, 120), boxes((5, 5, 25, 25)), 0.1)
    with open_frames(str(tmp_path / "out.mp4")) as stream:
        assert [frame.image_bgr_hwc.shape for frame in stream] == [(240, 320, 3)] * 2


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "out.mp4"
    path.write_bytes(b"what was there before")
    with pytest.raises(KeyError), AnnotatedVideo(path) as video:
        video.write(grey(), boxes((10, 10, 50, 50)), 0.0)
        raise KeyError
    assert path.read_bytes() == b"what was there before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_closed_generator_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "out.mp4"

    def endless() -> Iterator[int]:
        with AnnotatedVideo(path) as video:
            for index in range(1000):
                video.write(grey(), boxes((10, 10, 50, 50)), index / 10)
                yield index

    running = endless()
    assert [next(running) for _ in range(3)] == [0, 1, 2]
    assert not path.exists()
    running.close()  # type: ignore[attr-defined]  # a generator has it
    with open_frames(str(path)) as stream:
        assert sum(1 for _ in stream) == 3


def test_times_that_do_not_grow_are_moved_on_and_no_picture_is_lost(tmp_path: Path) -> None:
    with AnnotatedVideo(tmp_path / "out.mp4") as video:
        for time_s in (0.0, 1.0, 1.0, 0.5, 2.0):
            video.write(grey(), boxes(), time_s)
    with open_frames(str(tmp_path / "out.mp4")) as stream:
        assert [frame.time_s for frame in stream] == pytest.approx([0, 1, 1, 1, 2], abs=1e-4)


def test_writing_outside_the_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="outside its with block"):
        AnnotatedVideo(tmp_path / "out.mp4").write(grey(), boxes(), 0.0)
