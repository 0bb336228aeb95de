"""The WHEP client: what it refuses, how it stays bounded, and its contract with aiortc's inside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import pytest
from aiohttp import web
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.jitterbuffer import JitterFrame

from analytics import loopback_ice
from analytics.encoded_queue import ask_for_key_frame, take_encoded
from analytics.whep_client import ClientOptions, EncodedUnit, WhepStream, has_key_picture, open_whep
from base.errors import PeerError, UsageError
from tests.support.serving import TOKEN, serving
from tests.support.stand_in import StandInCamera

KEY = b"\x00\x00\x00\x01\x67\x42\x00\x00\x01\x68\xce\x00\x00\x00\x01\x65\x88"
DELTA = b"\x00\x00\x00\x01\x41\x9a\x65"


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180) as running:
        while running.broadcast.idle_s is None:
            time.sleep(0.01)
        yield running


@asynccontextmanager
async def answering(status: int, body: bytes, headers: dict[str, str]) -> AsyncIterator[str]:
    """A server that answers every POST the same way."""

    async def post(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    app = web.Application()
    app.router.add_post("/whep", post)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/whep"
    finally:
        await runner.cleanup()


def test_key_pictures_are_recognised_by_their_nal_type() -> None:
    assert has_key_picture(KEY)
    assert not has_key_picture(DELTA)
    assert not has_key_picture(b"")
    assert not has_key_picture(b"\x00\x00\x01")


async def test_units_come_with_a_token_and_their_own_times(camera: StandInCamera) -> None:
    async with (
        asyncio.timeout(40),
        serving(camera, token=TOKEN) as server,
        await open_whep(server.whep, token=TOKEN) as stream,
    ):
        units = [unit async for unit in take(stream, 80)]
    assert units[0].is_keyframe
    assert units[0].pts_us == 0
    late = units[60:]
    step_us = (late[-1].pts_us - late[0].pts_us) / (len(late) - 1)
    assert step_us == pytest.approx(40_000, rel=0.2)


async def take(stream: WhepStream, count: int) -> AsyncIterator[EncodedUnit]:
    async for unit in stream:
        yield unit
        count -= 1
        if not count:
            return


async def test_a_wrong_token_is_said_so(camera: StandInCamera) -> None:
    async with serving(camera, token=TOKEN) as server:
        with pytest.raises(PeerError, match=r"token is wrong \(HTTP 401\)") as caught:
            await open_whep(server.whep, token="not-the-right-token")
    assert "not-the-right-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "headers", "message"),
    [
        (404, b"<html>", {}, "HTTP status 404"),
        (409, b'{"detail": "the camera is not live"}', {}, "the camera is not live"),
        (503, b"[1]", {}, "HTTP status 503"),
        (201, b"hello", {"Location": "/x"}, "cannot be used"),
        (201, b"", {}, "cannot be used"),
        (201, b"v=0\r\n" + b"a=x\r\n" * 20_000, {}, "longer than"),
    ],
)
async def test_a_server_that_does_not_serve_is_a_peer_error(
    status: int, body: bytes, headers: dict[str, str], message: str
) -> None:
    async with answering(status, body, headers) as url:
        with pytest.raises(PeerError, match=message):
            await open_whep(url)


async def test_nobody_there_is_a_peer_error() -> None:
    with pytest.raises(PeerError, match="no answer"):
        await open_whep("http://127.0.0.1:9/whep")


@pytest.mark.parametrize("url", ["ftp://x/whep", "clip.mp4", "file:///etc/passwd", ""])
async def test_only_http_urls_are_opened(url: str) -> None:
    with pytest.raises(UsageError, match="http or https"):
        await open_whep(url)


async def test_errors_show_the_url_without_its_password() -> None:
    with pytest.raises(PeerError) as caught:
        await open_whep("http://user:hunter2@127.0.0.1:9/whep?token=hunter3")
    assert "hunter" not in str(caught.value)


async def test_a_slow_reader_loses_pictures_up_to_a_key_frame_and_memory_stays_bounded() -> None:
    stream = WhepStream("http://127.0.0.1:9/whep", None, ClientOptions(max_units=10))
    arrived: Callable[[JitterFrame], None] = stream._arrived
    for index in range(25):
        arrived(JitterFrame(KEY if index in (3, 20) else DELTA, index * 3600))
    stream._end()
    units = [unit async for unit in stream]
    assert [unit.pts_us for unit in units] == [index * 40_000 for index in range(20, 25)]
    assert units[0].is_keyframe
    assert stream.num_dropped == 20
    await stream.close()


async def test_the_stream_ends_with_the_session(camera: StandInCamera) -> None:
    async with serving(camera) as server, asyncio.timeout(40), await open_whep(server.whep) as stream:
        count = 0
        async for _ in stream:
            count += 1
            if count == 5:
                await server.viewers.close()
        assert count >= 5


async def test_aiortc_still_has_the_inside_that_the_shim_replaces() -> None:
    assert version("aiortc").startswith("1.16.")
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    receiver = peer.addTransceiver("video", direction="recvonly").receiver
    take_encoded(receiver, lambda _frame: None)
    ask_for_key_frame(receiver)
    await peer.close()


async def test_a_machine_without_any_network_connects_over_loopback(
    camera: StandInCamera, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback_ice, "_find_addresses", lambda _ipv4, _ipv6: [])
    async with asyncio.timeout(40), serving(camera) as server, await open_whep(server.whep) as stream:
        units = [unit async for unit in take(stream, 3)]
        assert "127.0.0.1" in stream._peer.localDescription.sdp
    assert units[0].is_keyframe
