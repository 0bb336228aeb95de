"""A cable is pulled, a media server is killed: the camera goes on by itself and leaves nothing behind.

The times and the full counts are bench.recovery's; a busy machine makes promises about seconds idle.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from base.errors import MissingDependency
from camera.access import ListenAddress
from camera.outputs.target import parse_target
from camera.outputs.whip import WhipOutput
from camera.pipeline import Pipeline, PipelineOptions
from camera.publisher import CodingOptions
from camera.recorder import Recorder, RecorderOptions
from camera.rtsp.server import RtspOptions, RtspServer, find_python
from camera.sources import open_source
from camera.webrtc.reports import ReportWatch
from codec.container import read_access_units
from codec.sealer import SealedUnit
from codec.segments import read_segments
from tests.support.blur import BlurProtector
from tests.support.broker import free_port
from tests.support.cuts import Cable, Held
from tests.support.media import Keys
from tests.support.serving import TOKEN
from tests.support.stand_in import StandInCamera

DATED_WITHIN_US = 4_000_000  # what libav looks at, and a busy machine; an outage that is forgotten is longer
OUTAGE_S = 6.0


def until(what: str, condition: Callable[[], bool], timeout_s: float = 40.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def recorded(folder: Path) -> set[int]:
    """Indices of the signed segments in all files."""
    found = set()
    for path in folder.rglob("*.mp4"):
        with read_access_units(path) as units:
            for view in read_segments(units):
                header, last = view.header(), view.units[-1].meta
                if header is not None and last is not None and last.signature:
                    found.add(header.segment_index)
    return found


def test_a_camera_whose_cable_is_pulled_is_back_with_the_right_times_and_all_finished_segments(
    tmp_path: Path,
) -> None:
    try:
        find_python()
    except MissingDependency as error:
        pytest.skip(f"required: {error}")
    keys, seen = Keys(), list[tuple[SealedUnit, int]]()
    with StandInCamera(width=320, height=180, fps=10, gop_s=1.0, sealed_bytes_per_frame=500) as far:
        options = RtspOptions(ListenAddress("127.0.0.1", 0), layer="protected")
        server = RtspServer(options, far.broadcast, far.request_key_frame)
        server.start()
        with Cable(int(server.url.rpartition(":")[2].partition("/")[0])) as cable:
            pipeline = Pipeline(
                open_source(f"rtsp://127.0.0.1:{cable.port}/live"),
                BlurProtector(),
                keys.camera,
                keys.epochs,
                PipelineOptions(CodingOptions(preset="ultrafast")),
            )
            ready = pipeline.broadcast.subscribe("test")

            def take() -> int:
                while (unit := ready.poll()) is not None:
                    seen.append((unit, time.time_ns() // 1000))
                return len(seen)

            def wait_for_more() -> None:
                count = take()
                until("pictures come", lambda: take() > count + 20)

            with Recorder(pipeline.broadcast, RecorderOptions(tmp_path, "gate")) as recorder, pipeline:
                wait_for_more()
                before = Held.now()
                for outage_s in (0.2, OUTAGE_S):
                    cable.cut()
                    time.sleep(outage_s)
                    cable.restore()
                    back_us = time.time_ns() // 1000
                    wait_for_more()
                    unit, came_us = seen[-1]
                    assert abs(came_us - unit.unit.pts_us) < DATED_WITHIN_US
                    assert unit.unit.pts_us > back_us
                assert Held.now().more_than(before) == {}
                assert pipeline.stats().reconnects >= 3  # the long outage takes several attempts
            assert recorder.join(20)
        assert server.close()
    take()
    finished = {unit.segment_index for unit, _ in seen if unit.is_last}
    assert len(finished) >= 3
    assert finished <= recorded(tmp_path)


class Clock:
    """Seconds, as the test sets them."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_receiver_whose_reports_stay_away_is_gone_after_three_seconds() -> None:
    clock = Clock()
    watch = ReportWatch(clock)
    for number in range(100):
        clock.now_s = number * 1.0
        assert not watch.is_gone(number)
    clock.now_s = 99 + 2.9
    assert not watch.is_gone(99)
    clock.now_s = 99 + 3.1
    assert watch.is_gone(99)


def test_a_receiver_that_reports_seldom_is_given_its_time() -> None:
    clock = Clock()
    watch = ReportWatch(clock)
    for number in range(5):
        clock.now_s = number * 5.0
        watch.is_gone(number)
    clock.now_s = 20 + 12.0
    assert not watch.is_gone(4)
    clock.now_s = 20 + 12.6
    assert watch.is_gone(4)


def test_a_receiver_that_never_reports_is_left_to_ice() -> None:
    clock = Clock()
    watch = ReportWatch(clock)
    for seconds in (0.0, 10.0, 1000.0):
        clock.now_s = seconds
        assert not watch.is_gone(None)


async def said(process: asyncio.subprocess.Process, word: bytes, timeout_s: float) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(timeout_s):
        while (line := await process.stdout.readline()).strip() != word:
            assert line, "the server ended"


async def test_a_media_server_that_was_killed_is_found_again_before_ice_would_miss_it() -> None:
    port = free_port()
    command = (sys.executable, "-m", "tests.support.whip_server", str(port))
    with StandInCamera(width=320, height=180, fps=10, gop_s=1.0) as camera:
        output = WhipOutput(parse_target(f"whip://127.0.0.1:{port}/whip", token=TOKEN), camera)
        output.start()
        tasks = held = None
        for _ in range(2):
            server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            try:
                await said(server, b"picture", 90)
                await asyncio.sleep(2.0)  # the first reports
                now = len(asyncio.all_tasks()), Held.now()
                assert tasks is None or now[0] <= tasks
                assert held is None or now[1].more_than(held) == {}
                tasks, held = now
            finally:
                server.kill()
                await server.wait()
            async with asyncio.timeout(15):  # ICE takes 30 s
                while output.state().phase == "publishing":
                    await asyncio.sleep(0.1)
        await output.close()
