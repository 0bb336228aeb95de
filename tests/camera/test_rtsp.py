"""RTSP to pull from: ffmpeg as the recorder, and the subscriber's library."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics import SubscribeOptions, subscribe
from base.errors import MediaError, MissingDependency, PeerError, UsageError
from camera.access import ListenAddress
from camera.broadcast import QueueLimits
from camera.rtsp.server import RtspOptions, RtspServer, find_python
from tests.support.evidence import letters_of
from tests.support.stand_in import StandInCamera

EVERYTHING = QueueLimits(max_units=100_000, max_bytes=1 << 30)
"""However long the machine takes: what was sent must all be there to compare."""

PASSWORD = "open-sesame-1234"


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180, gop_s=0.5, sealed_bytes_per_frame=2000) as running:
        yield running


@pytest.fixture(scope="module")
def server(camera: StandInCamera) -> Iterator[RtspServer]:
    try:
        find_python()
    except MissingDependency as error:
        pytest.skip(f"required: {error}")
    options = RtspOptions(ListenAddress("127.0.0.1", 0), password=PASSWORD)
    running = RtspServer(options, camera.broadcast, camera.request_key_frame)
    running.start()
    yield running
    assert running.close()


def with_password(server: RtspServer, password: str = PASSWORD) -> str:
    return server.url.replace("rtsp://", f"rtsp://veilcam:{password}@")


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_what_ffmpeg_pulls_and_records_verifies_and_opens(
    server: RtspServer, camera: StandInCamera, tmp_path: Path, transport: str
) -> None:
    recording = tmp_path / "pulled.mp4"
    done = subprocess.run(
        [
            *("ffmpeg", "-hide_banner", "-loglevel", "error", "-rtsp_transport", transport),
            *("-i", with_password(server), "-c", "copy", "-t", "4", str(recording)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=140,  # the server looks for its plug-ins when it is first started
        check=False,
    )
    assert done.returncode == 0, done.stderr
    letters, num_packets = letters_of(recording, camera.camera_key.public, camera.identity)
    whole = letters[1:-1]
    assert len(whole) >= 1
    assert set("".join(whole)) == {"A"}
    assert num_packets >= 5


async def test_units_arrive_bit_for_bit(server: RtspServer, camera: StandInCamera) -> None:
    sent = camera.broadcast.subscribe("sent", limits=EVERYTHING, replay=True)
    units = []
    async with asyncio.timeout(60), subscribe(with_password(server)) as stream:
        async for unit in stream:
            units.append(unit)
            if len(units) == 30:
                break
    await asyncio.sleep(0.2)
    camera.broadcast.unsubscribe(sent)
    published = {unit.unit.annexb() for unit in sent}
    # libav may begin in the middle of what the server sends first; everything else is what was published.
    assert sum(unit.data in published for unit in units) >= 29


async def test_a_wrong_password_gets_nothing(server: RtspServer) -> None:
    with pytest.raises(PeerError, match=r"401|nauthorized"):
        async for _ in subscribe(with_password(server, "wrong"), options=SubscribeOptions(reconnect=False)):
            pass


def test_a_server_that_dies_is_started_again(server: RtspServer) -> None:
    process = server._process
    assert process is not None
    process.kill()
    deadline = time.monotonic() + 30
    while not (server.state().restarts and server.state().serving):
        assert time.monotonic() < deadline, server.state()
        time.sleep(0.001)
    host, port = server.url.removeprefix("rtsp://").split("/")[0].rsplit(":", 1)
    socket.create_connection((host, int(port)), 5).close()  # serving means that it listens


def test_a_port_in_use_is_one_clear_error(server: RtspServer, camera: StandInCamera) -> None:
    port = int(server.url.rsplit(":", 1)[1].split("/")[0])
    second = RtspServer(
        RtspOptions(ListenAddress("127.0.0.1", port)), camera.broadcast, camera.request_key_frame
    )
    with pytest.raises(MediaError, match="in use"):
        second.start()


def test_beyond_loopback_it_needs_a_password() -> None:
    with pytest.raises(UsageError, match="password"):
        RtspOptions(ListenAddress("0.0.0.0", 8554))  # noqa: S104
    assert PASSWORD not in repr(RtspOptions(ListenAddress("0.0.0.0", 8554), password=PASSWORD))  # noqa: S104
