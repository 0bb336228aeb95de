from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from base.errors import UsageError
from camera.broadcast import Broadcast
from camera.pipeline import Pipeline, PipelineOptions
from camera.publisher import CodingOptions
from camera.recorder import Recorder, RecorderOptions
from camera.retention import RetentionRules
from camera.sources import open_source
from codec.container import read_access_units
from codec.segments import read_segments
from codec.unseal import open_segment
from tests.support.blur import BlurProtector
from tests.support.media import Keys, make_clip, num_pictures

Usage = namedtuple("Usage", "total used free")


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return condition()


def make_pipeline(uri: str, keys: Keys, *, realtime: bool = False) -> Pipeline:
    source = open_source(uri, realtime=realtime, start_unix_us=1_700_000_000_000_000)
    options = PipelineOptions(CodingOptions(preset="ultrafast"))
    return Pipeline(source, BlurProtector(), keys.camera, keys.epochs, options)


def recordings(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.mp4"))


def test_whole_segments_go_into_dated_files_that_open_and_play(tmp_path: Path) -> None:
    keys = Keys()
    clip = make_clip(tmp_path / "in.mp4", frames=150, gop=25, audio_s=6)
    pipeline = make_pipeline(str(clip), keys)
    with Recorder(pipeline.broadcast, RecorderOptions(tmp_path / "out", "gate", file_s=4)) as recorder:
        with pipeline:
            pipeline.join()
        assert recorder.join(10)
        state = recorder.state()
    paths = recordings(tmp_path / "out")
    assert [str(path.relative_to(tmp_path / "out")) for path in paths] == [
        "gate/2023-11-14/gate_20231114T221320.000Z.mp4",
        "gate/2023-11-14/gate_20231114T221324.000Z.mp4",
    ]
    assert [num_pictures(path) for path in paths] == [100, 50]
    for path in paths:
        with read_access_units(path) as units:
            for view in read_segments(units):
                assert open_segment(view, keys.identities).is_complete
    assert (state.segments, state.error, recorder.lost_units) == (3, "", 0)
    assert state.written_bytes == sum(path.stat().st_size for path in paths)


def test_a_killed_process_loses_at_most_the_open_segment(tmp_path: Path) -> None:
    script = f"""
        from pathlib import Path
        from tests.camera.test_recorder import make_pipeline
        from tests.support.media import Keys
        from camera.recorder import Recorder, RecorderOptions
        pipeline = make_pipeline("synthetic:?size=128x96&fps=50", Keys(), realtime=True)
        recorder = Recorder(pipeline.broadcast, RecorderOptions(Path({str(tmp_path)!r}), "gate"))
        recorder.start()
        pipeline.start()
        pipeline.join()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], cwd=Path(__file__).parents[2])
    try:
        assert wait_until(lambda: sum(p.stat().st_size for p in tmp_path.rglob("*.part")) > 20_000, 60)
        written = sum(p.stat().st_size for p in tmp_path.rglob("*.part"))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert recordings(tmp_path) == []
    recorder = Recorder(Broadcast(), RecorderOptions(tmp_path, "gate"))
    recorder.start()
    assert recorder.close(5)
    (path,) = recordings(tmp_path)
    assert recorder.recovered == [path]
    assert path.stat().st_size <= written + 1_000_000
    with read_access_units(path) as units:
        views = list(read_segments(units))
    assert views
    assert all(view.units[-1].meta and view.units[-1].meta.signature for view in views)
    assert num_pictures(path) == sum(len(view.units) for view in views)


def test_a_full_disk_stops_recording_not_the_stream_and_recording_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [10**12]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, free[0]))
    keys = Keys()
    pipeline = make_pipeline("synthetic:?size=64x48&fps=50", keys, realtime=True)
    options = RecorderOptions(tmp_path, "gate", retry_s=0.1)
    with Recorder(pipeline.broadcast, options) as recorder, pipeline:
        assert wait_until(lambda: recorder.state().segments >= 1)
        free[0] = 0
        assert wait_until(lambda: recorder.state().error != "")
        assert len(recordings(tmp_path)) == 1
        published = pipeline.stats().frames_out
        assert wait_until(lambda: pipeline.stats().frames_out > published + 5)
        free[0] = 10**12
        assert wait_until(lambda: recorder.state().error == "" and recorder.state().segments >= 3)
    assert recorder.lost_units > 0
    paths = recordings(tmp_path)
    assert len(paths) == 2
    for path in paths:
        assert num_pictures(path) > 0


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if done.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_while_writing_keeps_the_whole_segments(tiny_disk: Path) -> None:
    keys = Keys()
    pipeline = make_pipeline("synthetic:?size=320x240&fps=25&seconds=10", keys)
    options = RecorderOptions(tiny_disk, "gate", min_free_bytes=0, retry_s=0)
    with Recorder(pipeline.broadcast, options) as recorder, pipeline:
        pipeline.join()
    assert "space" in recorder.state().error
    assert pipeline.stats().frames_out == 250
    for path in recordings(tiny_disk):
        with read_access_units(path) as units:
            assert all(open_segment(view, keys.identities).is_complete for view in read_segments(units))


def test_old_files_make_room_while_recording(tmp_path: Path) -> None:
    keys = Keys()
    pipeline = make_pipeline("synthetic:?size=64x48&fps=10&seconds=20", keys)
    rules = RetentionRules(max_bytes=1)
    options = RecorderOptions(tmp_path, "gate", file_s=2, retention=rules)
    with Recorder(pipeline.broadcast, options) as recorder, pipeline:
        pipeline.join()
    assert recorder.state().segments == 10
    assert recordings(tmp_path) == []


def test_two_recorders_do_not_share_a_folder(tmp_path: Path) -> None:
    first = Recorder(Broadcast(), RecorderOptions(tmp_path, "gate"))
    with pytest.raises(UsageError, match="in use"):
        Recorder(Broadcast(), RecorderOptions(tmp_path, "gate"))
    first.start()
    assert first.close(5)
    second = Recorder(Broadcast(), RecorderOptions(tmp_path, "gate"))
    second.start()
    assert second.close(5)


def test_a_camera_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    for name in ("../x", "a/b", "", ".hidden", "x" * 65):
        with pytest.raises(UsageError, match="camera name"):
            RecorderOptions(tmp_path, name)
