"""The WHIP endpoint: foreign publishers push, and what arrives is what they coded."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import av
import pytest
from aiortc import (
    RTCConfiguration,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
    VideoStreamTrack,
)

from camera.broadcast import QueueLimits
from camera.outputs.target import parse_target
from camera.outputs.whip import WhipOutput
from camera.sources.captured import Captured
from camera.sources.pushed import PushedSource
from camera.webrtc.ingest import WhipIngest
from codec.packets import SealedPacket
from tests.support.chromium import Chromium, find_chromium
from tests.support.foreign import client_page
from tests.support.serving import TOKEN, Serving, serving
from tests.support.stand_in import StandInCamera

EVERYTHING = QueueLimits(max_units=100_000, max_bytes=1 << 30)
"""However long the machine takes: what was sent must all be there to compare."""

OFFER = (Path(__file__).parent / "offers" / "chromium.sdp").read_bytes().replace(b"a=recvonly", b"a=sendonly")
SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(slots=True)
class Taken:
    """What a pipeline would have got."""

    captured: list[Captured] = field(default_factory=list)

    @property
    def packets(self) -> list[SealedPacket]:
        return [packet for one in self.captured for packet in one.packets]

    async def until(self, count: int, timeout_s: float = 40.0) -> None:
        async with asyncio.timeout(timeout_s):
            while len(self.captured) < count:
                await asyncio.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Ingest:
    """An endpoint that takes video."""

    url: str
    http: aiohttp.ClientSession
    server: Serving
    source: PushedSource
    part: WhipIngest
    taken: Taken


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180, gop_s=1.0) as running:
        yield running


@asynccontextmanager
async def ingesting(camera: StandInCamera, token: str | None = TOKEN) -> AsyncIterator[Ingest]:
    source, taken = PushedSource(), Taken()
    thread = threading.Thread(target=lambda: taken.captured.extend(take(source, taken)))
    part = WhipIngest(source)
    thread.start()
    try:
        async with serving(camera, ingest_token=token, parts=[part]) as server:
            yield Ingest(server.url + "/whip", server.http, server, source, part, taken)
    finally:
        source.close()
        thread.join()


def take(source: PushedSource, taken: Taken) -> Iterator[Captured]:
    for captured in source:
        taken.captured.append(captured)
    yield from ()


async def test_an_offer_is_answered_recvonly_with_a_session_under_an_unguessable_url(
    camera: StandInCamera,
) -> None:
    async with ingesting(camera) as ingest:
        async with ingest.http.post(ingest.url, data=OFFER, headers=SDP | BEARER) as answer:
            text = await answer.text()
            assert answer.status == 201
            assert answer.content_type == "application/sdp"
            assert re.fullmatch(r"/whip/session/[\w-]{32}", answer.headers["Location"])
            assert text.count("a=recvonly") == 2  # the audio of the offer too
            assert "a=sendonly" not in text
            assert "a=candidate:" in text  # all gathered before the answer
            assert not re.search(r"m=(audio|video) 0 ", text)
            session = ingest.server.url + answer.headers["Location"]
        async with ingest.http.delete(session, headers=BEARER | {"If-Match": '"other"'}) as answer:
            assert answer.status == 200
        async with ingest.http.delete(session, headers=BEARER) as answer:
            assert answer.status == 404


@pytest.mark.parametrize(
    ("status", "code", "headers", "body"),
    [
        (415, "content-type", {"Content-Type": "text/plain"}, OFFER),
        (400, "bad-description", SDP, b"nonsense"),
        (413, "bad-description", SDP, b"v=0\r\n" + b"a" * 70_000),
        (422, "direction", SDP, OFFER.replace(b"a=sendonly", b"a=recvonly")),
        (422, "direction", SDP, OFFER.replace(b"a=sendonly", b"a=inactive")),
        (422, "no-h264", SDP, OFFER.replace(b" H264/", b" H267/")),
        (422, "no-h264", SDP, OFFER.replace(b"packetization-mode=1", b"packetization-mode=0")),
        (422, "unsupported-media", SDP, OFFER.replace(b"m=audio", b"m=text")),
        (422, "no-video", SDP, OFFER.replace(b"m=audio", b"m=video")),
    ],
)
async def test_a_bad_request_gets_its_status_and_a_reason(
    camera: StandInCamera, status: int, code: str, headers: dict[str, str], body: bytes
) -> None:
    async with ingesting(camera) as ingest:
        async with ingest.http.post(ingest.url, data=body, headers=headers | BEARER) as answer:
            problem = await answer.json(content_type="application/problem+json")
        assert (answer.status, problem["code"]) == (status, code)
        assert len(ingest.part) == 0


async def test_nobody_publishes_without_a_token(camera: StandInCamera) -> None:
    async with (
        ingesting(camera, token=None) as ingest,
        ingest.http.post(ingest.url, data=OFFER, headers=SDP) as answer,
    ):
        assert answer.status == 403
    async with ingesting(camera) as ingest:
        async with ingest.http.post(ingest.url, data=OFFER, headers=SDP) as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        wrong = {"Authorization": "Bearer " + "x" * 20}
        async with ingest.http.post(ingest.url, data=OFFER, headers=SDP | wrong) as answer:
            assert answer.status == 401


async def test_a_token_for_publishing_does_not_watch_and_the_other_way_round(camera: StandInCamera) -> None:
    async with serving(
        camera, token="a" * 20, ingest_token="b" * 20, parts=[WhipIngest(PushedSource())]
    ) as server:
        for path, token, status in (
            ("/whip", "a", 401),
            ("/whip", "b", 204),
            ("/whep", "b", 401),
            ("/whep", "a", 204),
        ):
            headers = {"Authorization": f"Bearer {token * 20}"}
            async with server.http.get(server.url + path, headers=headers) as answer:
                assert answer.status == status, (path, token)


async def test_a_preflight_needs_no_token_and_names_what_is_taken(camera: StandInCamera) -> None:
    async with ingesting(camera) as ingest:
        async with ingest.http.options(ingest.url, headers={"Origin": "https://example.com"}) as answer:
            assert answer.status == 200
            assert answer.headers["Accept-Post"] == "application/sdp"
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
            assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
            assert {"POST", "PATCH", "DELETE"} <= set(
                answer.headers["Access-Control-Allow-Methods"].split(", ")
            )
            assert {"Location", "ETag", "Link"} <= set(
                answer.headers["Access-Control-Expose-Headers"].split(", ")
            )
        async with ingest.http.get(ingest.url, headers=BEARER) as answer:
            assert (answer.status, await answer.read()) == (204, b"")


async def test_trickle_is_taken_and_an_ice_restart_refused_without_ending_the_session(
    camera: StandInCamera,
) -> None:
    async with ingesting(camera) as ingest:
        async with ingest.http.post(ingest.url, data=OFFER, headers=SDP | BEARER) as answer:
            session = ingest.server.url + answer.headers["Location"]
        for status, body in (
            (204, "a=candidate:1 1 udp 2130706431 192.0.2.77 40000 typ host\r\n"),
            (204, "a=candidate:nonsense\r\na=end-of-candidates\r\n"),
            (422, "a=ice-ufrag:zzzz\r\na=ice-pwd:0123456789012345678901\r\n"),
            (204, "a=end-of-candidates\r\n"),
        ):
            headers = FRAGMENT | BEARER
            async with ingest.http.patch(session, data=body.encode(), headers=headers) as answer:
                assert answer.status == status
                if status == 204:
                    assert await answer.read() == b""
                    assert "ETag" not in answer.headers


async def test_our_own_publisher_and_endpoint_pass_every_unit_bit_for_bit(camera: StandInCamera) -> None:
    sent = camera.broadcast.subscribe("sent", limits=EVERYTHING, replay=True)
    async with ingesting(camera) as ingest:
        target = parse_target(ingest.url.replace("http:", "whip:"), token=TOKEN, layer="sealed")
        output = WhipOutput(target, camera)
        output.start()
        await ingest.taken.until(30)
        assert output.state().phase == "publishing"
        await output.close()
        async with asyncio.timeout(10):
            while len(ingest.part):
                await asyncio.sleep(0.05)
        assert ingest.source.state == "reconnecting"
    camera.broadcast.unsubscribe(sent)
    published = {unit.unit.annexb() for unit in sent}
    packets = ingest.taken.packets
    assert packets[0].is_key
    assert len(packets) >= 29
    assert all(packet.data in published for packet in packets)
    assert ingest.taken.captured[0].streams[0].width == 320
    times = [one.time_us for one in ingest.taken.captured]
    assert times == sorted(set(times))


async def test_a_publisher_that_comes_back_takes_over_and_starts_a_segment(camera: StandInCamera) -> None:
    async with ingesting(camera) as ingest:
        target = parse_target(ingest.url.replace("http:", "whip:"), token=TOKEN)
        first, second = WhipOutput(target, camera), WhipOutput(target, camera)
        first.start()
        await ingest.taken.until(5)
        second.start()
        count = len(ingest.taken.captured)
        await ingest.taken.until(count + 15)
        await first.close()
        await second.close()
        assert ingest.source.reconnects >= 1
    assert any(one.discontinuity for one in ingest.taken.captured[count:])


async def test_media_servers_that_refuse_are_asked_again(camera: StandInCamera) -> None:
    async with ingesting(camera) as ingest:
        target = parse_target(ingest.url.replace("http:", "whip:"), token="w" * 20)
        output = WhipOutput(target, camera)
        output.start()
        async with asyncio.timeout(20):
            while not output.state().reconnects:
                await asyncio.sleep(0.05)
        state = output.state()
        await output.close()
    assert "the token is wrong" in state.error
    assert "w" * 20 not in repr(state)


async def test_an_aiortc_peer_publishes_what_it_codes_itself(camera: StandInCamera) -> None:
    async with ingesting(camera) as ingest:
        peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        transceiver = peer.addTransceiver(VideoStreamTrack(), direction="sendonly")
        codecs = RTCRtpSender.getCapabilities("video").codecs
        transceiver.setCodecPreferences([codec for codec in codecs if codec.mimeType == "video/H264"])
        await peer.setLocalDescription(await peer.createOffer())
        offer = peer.localDescription.sdp.encode()
        async with ingest.http.post(ingest.url, data=offer, headers=SDP | BEARER) as answer:
            await peer.setRemoteDescription(RTCSessionDescription(await answer.text(), "answer"))
        await ingest.taken.until(10)
        await peer.close()
    assert (ingest.taken.captured[0].picture.width, ingest.taken.captured[0].picture.height) == (640, 480)


async def test_ffmpeg_publishes(camera: StandInCamera, tmp_path: Path) -> None:
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="required: imageio-ffmpeg (dev extra)")
    async with ingesting(camera) as ingest:
        program = await asyncio.create_subprocess_exec(
            imageio_ffmpeg.get_ffmpeg_exe(),
            *("-hide_banner", "-loglevel", "error", "-re", "-f", "lavfi"),
            *("-i", "testsrc2=size=320x180:rate=25", "-t", "5", "-pix_fmt", "yuv420p", "-g", "25"),
            *("-c:v", "libx264", "-profile:v", "baseline", "-preset", "ultrafast", "-bf", "0"),
            *("-f", "whip", "-authorization", TOKEN, ingest.url),
            stdin=asyncio.subprocess.DEVNULL,
        )
        try:
            await ingest.taken.until(50)
        finally:
            with suppress(ProcessLookupError):
                program.terminate()
            await program.wait()
    decoder = av.CodecContext.create("h264", "r")
    pictures = [frame for packet in ingest.taken.packets for frame in decoder.decode(av.Packet(packet.data))]
    assert len(pictures) >= 48


@pytest.mark.browser
@pytest.mark.skipif(find_chromium() is None, reason="required: chromium")
async def test_chromium_publishes_and_watches_with_the_npm_clients(
    camera: StandInCamera, tmp_path: Path
) -> None:
    fake = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    source = PushedSource()
    taken = Taken()
    thread = threading.Thread(target=lambda: list(take(source, taken)))
    part = WhipIngest(source)
    thread.start()
    try:
        async with (
            serving(camera, token=TOKEN, parts=[part]) as server,
            client_page() as url,
            Chromium(tmp_path, *fake) as page,
        ):
            await page.open(url)
            await page.until("globalThis.ready === true")
            await page.evaluate(f"watch('{server.whep}', '{TOKEN}')")
            await page.until("stat('inbound-rtp', 'framesDecoded').then((n) => n > 25)", 60)
            assert await page.evaluate("document.querySelector('#v').videoWidth") == 320
            assert len(server.viewers) == 1
            await page.evaluate("client.stop()")
            async with asyncio.timeout(10):
                while len(server.viewers):  # its DELETE
                    await asyncio.sleep(0.05)
            await page.evaluate(f"publish('{server.url}/whip', '{TOKEN}')")
            await taken.until(25, 60)
            await page.evaluate("client.stop()")
            async with asyncio.timeout(10):
                while len(part):
                    await asyncio.sleep(0.05)
            errors = [line for line in page.console if "favicon" not in line]
            assert not errors, errors
    finally:
        source.close()
        thread.join()
    assert taken.captured[0].source_key
    assert taken.packets[0].is_key
