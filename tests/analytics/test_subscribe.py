"""The subscriber's library against a real camera's endpoint, and a real libav sender."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import av
import pytest

from analytics import SubscribeOptions, subscribe
from analytics.encoded_unit import UnitQueue, has_key_picture
from analytics.whep_client import RefusedError
from base.errors import PeerError, UsageError
from tests.support.media import make_clip
from tests.support.serving import TOKEN, serving
from tests.support.stand_in import StandInCamera


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera() as running:
        yield running


KEY = b"\x00\x00\x00\x01\x65\x80"
DELTA = b"\x00\x00\x00\x01\x41\x80"


def test_a_full_queue_goes_on_with_a_key_frame_and_says_so() -> None:
    queue = UnitQueue(max_units=3, max_bytes=1000)
    assert not queue.put(DELTA, 0)  # before any key frame
    for number, data in enumerate((KEY, DELTA, DELTA), start=1):
        assert not queue.put(data, number)
    assert queue.put(DELTA, 4)  # does not fit: the queue is emptied
    queue.put(DELTA, 5)
    queue.put(KEY, 6)
    unit = queue.pop()
    assert unit is not None
    assert (unit.pts_us, unit.is_keyframe, unit.discontinuity) == (6, True, True)
    assert queue.pop() is None
    assert queue.num_dropped == 1 + 3 + 2


def test_one_unit_above_the_byte_limit_still_fits_into_an_empty_queue() -> None:
    queue = UnitQueue(max_units=3, max_bytes=4)
    assert not queue.put(KEY, 0)
    assert queue.pop() is not None


async def test_units_arrive_with_rising_times_from_a_key_frame_on(camera: StandInCamera) -> None:
    times, first = [], None
    async with (
        serving(camera, token=TOKEN) as server,
        asyncio.timeout(40),
        subscribe(server.whep, token=TOKEN) as stream,
    ):
        async for unit in stream:
            first = first or unit
            times.append(unit.pts_us)
            if len(times) == 20:
                break
    assert first is not None
    assert first.is_keyframe
    assert has_key_picture(first.data)
    assert times[0] == 0
    assert times == sorted(set(times))


async def test_a_camera_that_restarts_is_found_again_and_times_go_on(camera: StandInCamera) -> None:
    options = SubscribeOptions(first_pause_s=0.1, max_pause_s=0.2)
    async with asyncio.timeout(60):
        async with serving(camera) as server:
            url = server.whep
            stream = subscribe(url, options=options)
            units = stream.__aiter__()
            before = [await anext(units) for _ in range(5)]
        port = int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])
        async with serving(camera, port=port):
            after = await anext(units)
            while not after.discontinuity:  # what was still in the queue
                before.append(after)
                after = await anext(units)
            await stream.close()
    assert after.is_keyframe
    assert after.pts_us > before[-1].pts_us
    assert stream.num_reconnects >= 1


async def test_a_wrong_token_ends_it_at_once_with_the_reason(camera: StandInCamera) -> None:
    async with serving(camera, token=TOKEN) as server, asyncio.timeout(20):
        with pytest.raises(RefusedError, match="the token is wrong") as raised:
            async for _ in subscribe(server.whep, token="another-token-of-length"):
                pass
    assert raised.value.status == 401
    assert raised.value.is_final


async def test_closing_from_another_task_ends_the_iteration(camera: StandInCamera) -> None:
    async with serving(camera) as server, asyncio.timeout(40):
        stream = subscribe(server.whep)
        asyncio.get_running_loop().call_later(1.0, lambda: asyncio.ensure_future(stream.close()))
        num_units = 0
        async for _ in stream:
            num_units += 1
    assert num_units > 0


@pytest.mark.parametrize("url", ["ftp://example.com/x", "file:///etc/passwd", "nonsense"])
async def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        subscribe(url)


async def test_nobody_there_is_an_error_without_reconnecting_and_shows_no_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        url = f"rtsp://user:secret@127.0.0.1:{port}/gate"
        with pytest.raises(PeerError) as raised:
            async for _ in subscribe(url, options=SubscribeOptions(reconnect=False)):
                pass
    assert "secret" not in str(raised.value)
    assert f"rtsp://127.0.0.1:{port}/gate" in str(raised.value)


async def test_a_transport_stream_over_udp_arrives_as_it_was_sent(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", frames=75, gop=10, b_frames=0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"udp://127.0.0.1:{port}"
    stop = threading.Event()
    sender = threading.Thread(target=send_for_ever, args=(clip, f"{url}?pkt_size=1316", stop))
    sender.start()
    try:
        async with asyncio.timeout(40), subscribe(url) as stream:
            units = []
            async for unit in stream:
                units.append(unit)
                if len(units) == 12:
                    break
    finally:
        stop.set()
        sender.join()
    decoder = av.CodecContext.create("h264", "r")
    pictures = [picture for unit in units for picture in decoder.decode(av.Packet(unit.data))]
    pictures += decoder.decode(None)
    assert len(pictures) == 12


def send_for_ever(clip: Path, url: str, stop: threading.Event) -> None:
    """Remux a clip into MPEG-TS over UDP, in real time, again and again."""
    offset = 0
    with av.open(url, "w", format="mpegts") as output:
        with av.open(str(clip)) as probe:
            stream = output.add_stream_from_template(probe.streams.video[0])
        while not stop.is_set():
            with av.open(str(clip)) as source:
                for packet in source.demux(source.streams.video[0]):
                    if packet.dts is None or packet.pts is None or stop.wait(0.02):
                        continue
                    packet.pts += offset
                    packet.dts += offset
                    packet.stream = stream
                    output.mux(packet)
            offset += 75 * 512
