from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from camera.sources import open_source
from camera.sources.backoff import Backoff
from camera.sources.captured import Captured, Source
from tests.support.media import demuxed, make_clip


@contextmanager
def serve(chunks: list[bytes], *, hold: bool = False) -> Iterator[str]:
    """A network camera: each connection gets the next of ``chunks``; with ``hold`` the last stays open."""
    server = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def run() -> None:
        for number, chunk in enumerate(chunks):
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with suppress(OSError):
                connection.sendall(chunk)
            if hold and number == len(chunks) - 1:
                held.append(connection)
            else:
                connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.close()
        for connection in held:
            connection.close()
        thread.join(5)


def take(source: Source, count: int) -> list[Captured]:
    frames: list[Captured] = []
    for captured in source:
        frames.append(captured)
        if len(frames) == count:
            source.close()
    return frames


def test_a_lost_camera_is_opened_again_and_its_packets_are_all_kept(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.ts", frames=40, gop=20)
    with serve([path.read_bytes(), path.read_bytes()]) as url:
        source = open_source(url, options={"probesize": "65536", "analyzeduration": "200000"})
        frames = take(source, 80)
    assert source.reconnects == 1
    assert source.state == "ended"
    assert [n for n, captured in enumerate(frames) if captured.discontinuity] == [40]
    assert frames[40].source_key
    times = [captured.time_us for captured in frames]
    assert times == sorted(set(times))
    payloads = [payload for *_, payload in demuxed(path)]
    copied = [p.data for captured in frames for p in captured.packets] + [
        p.data for p in source.trailing_packets()
    ]
    assert copied == payloads * 2


def test_capture_times_of_a_camera_are_the_wall_clock_also_after_a_gap(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.ts", frames=3, gop=3, b_frames=0)
    before_us = time.time_ns() // 1000
    with serve([path.read_bytes(), path.read_bytes()]) as url:
        frames = take(open_source(url), 6)
    after_us = time.time_ns() // 1000
    assert before_us <= frames[0].time_us <= after_us
    gap_us = frames[3].time_us - frames[2].time_us
    assert gap_us > 150_000  # at least a quarter of a second of back-off; the burst itself spans 0.08 s


def test_a_silent_camera_is_noticed(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.ts", frames=25, gop=25, b_frames=0)
    with serve([path.read_bytes()], hold=True) as url:
        source = open_source(url, read_timeout_s=0.4)
        reader = threading.Thread(target=lambda: list(source))
        reader.start()
        deadline_s = time.monotonic() + 20
        while source.reconnects == 0 and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert source.reconnects >= 1
        assert source.state == "reconnecting"
        assert source.last_error
        source.close()
        reader.join(10)
        assert not reader.is_alive()


def test_a_camera_that_is_not_there_is_waited_for_and_can_be_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    source = open_source(f"rtsp://user:secret@127.0.0.1:{port}/x", open_timeout_s=1)
    reader = threading.Thread(target=lambda: list(source))
    reader.start()
    deadline_s = time.monotonic() + 10
    while source.reconnects < 2 and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert source.reconnects >= 2
    assert "secret" not in source.last_error + source.name
    source.close()
    reader.join(5)
    assert not reader.is_alive()


def test_back_off_doubles_up_to_its_cap_with_jitter() -> None:
    backoff = Backoff(0.5, 30, random.Random(1))
    delays = [backoff.next_delay_s() for _ in range(10)]
    for number, delay in enumerate(delays):
        full = min(30.0, 0.5 * 2**number)
        assert full / 2 <= delay <= full
    backoff.reset()
    assert backoff.next_delay_s() <= 0.5
