from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analytics.stream import open_frames
from base.errors import MediaError, UsageError
from tests.analytics.clips import annexb_units, red_square, write_clip

TIMES_MS = [40, 80, 120, 300, 340, 380, 900, 940]  # a camera that stutters, and does not start at zero


@pytest.fixture(params=["mp4", "mkv", "ts"])
def clip(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"clip.{request.param}"
    write_clip(path, [red_square(4 * index, 0) for index in range(len(TIMES_MS))], TIMES_MS)
    return path


def test_all_pictures_come_in_order_with_their_own_times(clip: Path) -> None:
    with open_frames(str(clip)) as stream:
        frames = list(stream)
        assert stream.num_dropped == 0
    assert [frame.index for frame in frames] == list(range(8))
    assert [frame.time_s for frame in frames] == pytest.approx([(t - 40) / 1000 for t in TIMES_MS], abs=1e-3)
    for frame in frames:
        expected = red_square(4 * frame.index, 0)
        assert frame.image_bgr_hwc.shape == (64, 64, 3)
        assert np.abs(frame.image_bgr_hwc.astype(int) - expected).mean() < 8


def test_every_third_picture_keeps_index_and_time(clip: Path) -> None:
    with open_frames(str(clip), every=3) as stream:
        frames = [(frame.index, frame.time_s) for frame in stream]
    assert frames == [(0, 0.0), (3, pytest.approx(0.26, abs=1e-3)), (6, pytest.approx(0.86, abs=1e-3))]


def test_the_number_of_pictures_is_known_for_an_mp4(tmp_path: Path) -> None:
    write_clip(tmp_path / "clip.mp4", [red_square(0, 0)] * 5, range(0, 200, 40))
    with open_frames(str(tmp_path / "clip.mp4")) as stream:
        assert stream.num_frames == 5


def test_damaged_packets_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write_clip(path, [red_square(8 * (index % 5), 0) for index in range(40)], range(0, 1600, 40))
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 3, len(data) * 2 // 3, 37):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with open_frames(str(path)) as stream:
        num_decoded = sum(1 for _ in stream)
        assert 8 <= num_decoded < 40
        assert num_decoded + stream.num_dropped == 40


def test_a_truncated_file_gives_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "clip.ts"
    write_clip(path, [red_square(8 * (index % 5), 0) for index in range(40)], range(0, 1600, 40))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with open_frames(str(path)) as stream:
        assert 8 <= sum(1 for _ in stream) < 40


def test_a_stream_without_times_is_counted_out_at_its_rate(tmp_path: Path) -> None:
    path = tmp_path / "raw.h264"
    path.write_bytes(b"".join(annexb_units([red_square(4 * index, 0) for index in range(6)])))
    with open_frames(str(path)) as stream:
        times = [frame.time_s for frame in stream]
    assert len(times) == 6
    assert times[0] == 0
    assert (np.diff(times) > 0).all()


def test_closing_ends_the_iteration(clip: Path) -> None:
    with open_frames(str(clip)) as stream:
        taken = []
        for frame in stream:
            taken.append(frame.index)
            if frame.index == 2:
                stream.close()
    assert taken == [0, 1, 2]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.mp4: no such file"):
        open_frames(str(tmp_path / "gone.mp4"))


@pytest.mark.parametrize("content", [b"", b"not a video at all", bytes(5000)])
def test_a_file_that_is_no_video_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(MediaError, match=r"notes\.txt: not a video file"):
        open_frames(str(path))


@pytest.mark.parametrize(("every", "queue_frames"), [(0, 1), (1, 0)])
def test_counts_below_one_are_refused(every: int, queue_frames: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        open_frames("clip.mp4", every=every, queue_frames=queue_frames)
