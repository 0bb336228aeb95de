"""The WHEP endpoint against real aiortc peers over real sockets."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import av
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

from analytics.whep_client import ClientOptions, EncodedUnit, open_whep
from base.errors import UsageError
from camera.webrtc.ice import IceServer
from camera.webrtc.offer import MAX_SDP_BYTES
from camera.webrtc.track import TrackOptions
from codec.access_unit import AccessUnit
from codec.segments import view_unit
from codec.sei import SeiKind, veilcam_kind
from tests.support.serving import Serving, serving
from tests.support.stand_in import StandInCamera

CHROMIUM = (Path(__file__).parent / "offers" / "chromium.sdp").read_bytes()
SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera() as running:
        while running.broadcast.idle_s is None:
            pass
        yield running


async def make_offer(
    *, codec: str = "video/H264", direction: str = "recvonly"
) -> tuple[RTCPeerConnection, str]:
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    transceiver = peer.addTransceiver("video", direction=direction)
    capabilities = RTCRtpReceiver.getCapabilities("video")
    assert capabilities is not None
    transceiver.setCodecPreferences([c for c in capabilities.codecs if c.mimeType == codec])
    await peer.setLocalDescription(await peer.createOffer())
    return peer, peer.localDescription.sdp


async def receive(url: str, count: int, options: ClientOptions | None = None) -> list[EncodedUnit]:
    units: list[EncodedUnit] = []
    async with asyncio.timeout(40), await open_whep(url, options=options) as stream:
        async for unit in stream:
            units.append(unit)
            if len(units) == count:
                break
    return units


async def test_an_offer_is_answered_with_h264_sendonly_and_a_session(camera: StandInCamera) -> None:
    async with serving(camera) as server, server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
        text = await answer.text()
        assert answer.status == 201
        assert answer.content_type == "application/sdp"
        assert re.fullmatch(r"/whep/session/[\w-]{32}", answer.headers["Location"])
        assert answer.headers["ETag"].startswith('"')
        video = text[text.index("m=video") :]
        first = video.split()[3]
        assert f"a=rtpmap:{first} H264/90000" in video
        assert "VP8" not in text
        assert "a=sendonly" in video
        assert "a=candidate:" in text
        assert "m=video 0" not in text
        assert "m=audio 0" not in text


async def test_a_viewer_gets_the_protected_layer_signed_and_without_ciphertext(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        units = await receive(server.whep, 60)
    assert units[0].is_keyframe
    kinds = [veilcam_kind(nal) for unit in units for nal in AccessUnit.from_annexb(unit.data, 0).nals]
    assert kinds.count(SeiKind.META) >= 60
    assert SeiKind.SEALED not in kinds


async def test_a_recorder_that_asks_gets_the_sealed_layer_too(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        units = await receive(server.whep, 30, ClientOptions(layer="sealed"))
    kinds = [veilcam_kind(nal) for unit in units for nal in AccessUnit.from_annexb(unit.data, 0).nals]
    assert SeiKind.META in kinds
    assert kinds.count(SeiKind.SEALED) >= 30


async def test_what_arrives_decodes_without_a_gap(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        units = await receive(server.whep, 75)
    decoder = av.CodecContext.create("h264", "r")
    pictures = [frame for unit in units for frame in decoder.decode(av.Packet(unit.data))]
    pictures += decoder.decode(None)
    assert len(pictures) == 75
    steps = [b.pts_us - a.pts_us for a, b in pairwise(units)]
    assert min(steps) > 0


async def test_the_first_picture_comes_from_the_open_segment_at_once() -> None:
    patient = TrackOptions(max_replay_us=60_000_000)
    with StandInCamera(gop_s=60.0) as camera:
        while camera.broadcast.idle_s is None:
            await asyncio.sleep(0.02)
        async with serving(camera, options=patient) as server:
            await asyncio.sleep(0.5)
            (first,) = await receive(server.whep, 1)
        record = view_unit(AccessUnit.from_annexb(first.data, 0)).frame
    assert record is not None
    assert record.time_us == camera.times_us[0]  # the next key frame was a minute away
    assert camera.num_key_requests == 0


async def test_an_unmodified_aiortc_peer_decodes_the_stream(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        peer, offer = await make_offer()
        async with server.http.post(server.whep, data=offer.encode(), headers=SDP) as answer:
            await peer.setRemoteDescription(RTCSessionDescription(await answer.text(), "answer"))
        track = peer.getReceivers()[0].track
        async with asyncio.timeout(40):
            frames = [await track.recv() for _ in range(30)]
        await peer.close()
    assert all(
        isinstance(frame, av.VideoFrame) and (frame.width, frame.height) == (640, 360) for frame in frames
    )


async def test_picture_loss_reaches_the_camera(camera: StandInCamera) -> None:
    async with serving(camera) as server, asyncio.timeout(40):
        async with await open_whep(server.whep) as stream:
            before = camera.num_key_requests
            async for unit in stream:
                if camera.num_key_requests > before and unit.is_keyframe:
                    break
                stream.request_key_frame()
        assert server.viewers.num_key_frame_requests > 0


@pytest.mark.parametrize(
    ("status", "code", "headers", "query", "body"),
    [
        (415, "content-type", {"Content-Type": "text/plain"}, "", CHROMIUM),
        (400, "bad-description", SDP, "", b"nonsense"),
        (413, "bad-description", SDP, "", b"v=0\r\n" + b"a" * MAX_SDP_BYTES),
        (400, "bad-layer", SDP, "?layer=clear", CHROMIUM),
        (406, "no-h264", SDP, "", CHROMIUM.replace(b" H264/", b" H267/")),
        (406, "no-h264", SDP, "", CHROMIUM.replace(b"packetization-mode=1", b"packetization-mode=0")),
        (422, "direction", SDP, "", CHROMIUM.replace(b"a=recvonly", b"a=sendonly")),
        (422, "direction", SDP, "", CHROMIUM.replace(b"a=recvonly", b"a=inactive")),
        (422, "no-video", SDP, "", CHROMIUM.replace(b"m=video", b"m=audio")),
        (422, "unsupported-media", SDP, "", CHROMIUM.replace(b"m=audio", b"m=image")),
        (
            400,
            "bad-offer",
            SDP,
            "",
            re.sub(rb"a=fingerprint:sha-256 [^\r]+", b"a=fingerprint:sha-256", CHROMIUM),
        ),
    ],
)
async def test_a_bad_request_gets_its_status_and_a_reason(  # noqa: PLR0917
    camera: StandInCamera, status: int, code: str, headers: dict[str, str], query: str, body: bytes
) -> None:
    async with serving(camera) as server:
        async with server.http.post(server.whep + query, data=body, headers=headers) as answer:
            problem = await answer.json(content_type="application/problem+json")
            assert (answer.status, problem["code"]) == (status, code)
            assert problem["detail"]
        assert len(server.viewers) == 0


async def test_a_camera_without_pictures_answers_409_with_a_time_to_retry() -> None:
    camera = StandInCamera()  # never started
    async with serving(camera) as server, server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
        assert answer.status == 409
        assert int(answer.headers["Retry-After"]) > 0


async def test_viewers_above_the_limit_get_503_until_one_leaves(camera: StandInCamera) -> None:
    async with serving(camera, max_viewers=1) as server:
        async with server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
            session = server.url + answer.headers["Location"]
        async with server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
            assert answer.status == 503
            assert int(answer.headers["Retry-After"]) > 0
        async with server.http.delete(session) as answer:
            assert answer.status == 200
        async with server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
            assert answer.status == 201


async def post(server: Serving) -> str:
    async with server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
        return server.url + answer.headers["Location"]


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (204, FRAGMENT, "a=candidate:1 1 udp 2130706431 192.0.2.77 40000 typ host\r\n"),
        (204, FRAGMENT, "a=candidate:1 1 udp 2130706431 hidden.local 40000 typ host\r\n"),
        (204, FRAGMENT, "a=candidate:nonsense\r\na=end-of-candidates\r\n"),
        (204, FRAGMENT | {"If-Match": '"whatever"'}, "a=end-of-candidates\r\n"),
        (422, FRAGMENT, "a=ice-ufrag:zzzz\r\na=ice-pwd:0123456789012345678901\r\n"),
        (415, SDP, "v=0\r\n"),
        (400, FRAGMENT, "hello\r\n"),
    ],
)
async def test_trickle_is_taken_and_an_ice_restart_refused(
    camera: StandInCamera, status: int, headers: dict[str, str], body: str
) -> None:
    async with serving(camera) as server:
        session = await post(server)
        async with server.http.patch(session, data=body.encode(), headers=headers) as answer:
            assert answer.status == status
            assert (await answer.read() == b"") == (status == 204)


async def test_a_session_ends_with_delete_and_is_then_unknown(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        session = await post(server)
        async with server.http.get(session) as answer:
            assert answer.status == 204
        async with server.http.delete(session, headers={"If-Match": '"other"'}) as answer:
            assert answer.status == 200
        for method in ("DELETE", "PATCH", "GET"):
            async with server.http.request(method, session, data=b"", headers=FRAGMENT) as answer:
                assert answer.status == 404


async def test_discovery_answers_what_the_endpoint_takes(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        async with server.http.options(server.whep) as answer:
            assert (answer.status, answer.headers["Accept-Post"]) == (200, "application/sdp")
        async with server.http.get(server.whep) as answer:
            assert (answer.status, await answer.read()) == (204, b"")
        async with server.http.head(server.whep) as answer:
            assert (answer.status, answer.content_type) == (200, "application/sdp")
        async with server.http.put(server.whep) as answer:
            assert answer.status == 405
            assert "POST" in answer.headers["Allow"]


async def test_the_end_of_the_camera_ends_the_viewers() -> None:
    with StandInCamera(gop_s=0.5) as camera:
        while camera.broadcast.idle_s is None:
            await asyncio.sleep(0.02)
        async with serving(camera) as server, asyncio.timeout(40):
            peer, offer = await make_offer()
            async with server.http.post(server.whep, data=offer.encode(), headers=SDP) as answer:
                await peer.setRemoteDescription(RTCSessionDescription(await answer.text(), "answer"))
            track = peer.getReceivers()[0].track
            await track.recv()
            camera.broadcast.close()
            with pytest.raises(MediaStreamError):
                while True:
                    await track.recv()
            await peer.close()


async def test_twenty_viewers_come_and_go_and_leave_nothing_behind(camera: StandInCamera) -> None:
    async def cycle(server: Serving, index: int) -> None:
        if index % 4 == 3:  # a client that never connects, and deletes
            session = await post(server)
            async with server.http.delete(session):
                return
        await receive(server.whep, 2)

    async with serving(camera, burst=200) as server:
        await cycle(server, 0)  # whatever is made once is made now
        await cycle(server, 3)
        await settle(server)
        tasks, files = len(asyncio.all_tasks()), num_files()
        for index in range(20):
            await cycle(server, index)
        await settle(server)
        assert len(server.viewers) == 0
        assert camera.broadcast.num_subscribers == 0
        assert len(asyncio.all_tasks()) <= tasks
        assert num_files() <= files


async def settle(server: Serving) -> None:
    """Wait until the viewers that were discarded are closed."""
    for _ in range(100):
        await asyncio.sleep(0.05)
        if not len(server.viewers) and not any("discard" in task.get_name() for task in asyncio.all_tasks()):
            break
    await asyncio.sleep(0.2)
    gc.collect()


def num_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_ice_servers_are_told_in_link_headers_of_the_answer(camera: StandInCamera) -> None:
    """RFC 9725, 4.6: one header per server, with its credentials."""
    servers = (
        IceServer("stun:127.0.0.1:3478"),
        IceServer("turn:127.0.0.1:3478?transport=udp", "viewer", "secret-1"),
    )
    async with serving(camera, ice_servers=servers) as server:
        async with server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
            assert answer.status == 201
            assert answer.headers.getall("Link") == [
                '<stun:127.0.0.1:3478>; rel="ice-server"',
                '<turn:127.0.0.1:3478?transport=udp>; rel="ice-server"; username="viewer";'
                ' credential="secret-1"; credential-type="password"',
            ]
        async with server.http.options(server.whep) as answer:
            assert "Link" not in answer.headers  # a preflight carries no token


@pytest.mark.parametrize(
    "url", ["http://example.com", "turn:example.com", 'stun:a"b', "stun:example.com\r\nX: y"]
)
def test_ice_servers_are_checked(url: str) -> None:
    with pytest.raises(UsageError):
        IceServer(url)
    assert "secret-1" not in repr(IceServer("turn:h:1", "u", "secret-1"))


async def test_the_answer_bundles_muxes_and_takes_the_passive_or_active_side(camera: StandInCamera) -> None:
    async with serving(camera) as server, server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
        text = await answer.text()
    media = text.split("m=")[1:]
    assert len(media) == CHROMIUM.count(b"m=")  # one answer section per offered one, none rejected
    assert text.count("a=group:BUNDLE") == 1
    assert all("a=rtcp-mux" in section for section in media)
    assert all("a=setup:active" in section or "a=setup:passive" in section for section in media)
    assert "a=setup:actpass" not in text


async def test_an_etag_is_strong_and_trickle_answers_have_none(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        async with server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
            assert re.fullmatch(r'"[0-9a-f]+"', answer.headers["ETag"])
            session = server.url + answer.headers["Location"]
        async with server.http.patch(session, data=b"a=end-of-candidates\r\n", headers=FRAGMENT) as answer:
            assert (answer.status, "ETag" in answer.headers) == (204, False)
        restart = b"a=ice-ufrag:zzzz\r\na=ice-pwd:0123456789012345678901\r\n"
        async with server.http.patch(session, data=restart, headers=FRAGMENT | {"If-Match": "*"}) as answer:
            assert answer.status == 422
        async with server.http.get(session) as answer:
            assert answer.status == 204  # a refused restart does not end the session


async def test_it_never_redirects_with_301_or_302(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        for path in ("/whep/", "/whep//", "/whep/session", "/whep/session/"):
            async with server.http.post(
                server.url + path, data=CHROMIUM, headers=SDP, allow_redirects=False
            ) as answer:
                assert answer.status in {404, 405}


@pytest.mark.parametrize(("rendition", "status"), [("main", 201), ("sub", 201), ("huge", 400)])
async def test_a_rendition_may_be_asked_for(camera: StandInCamera, rendition: str, status: int) -> None:
    async with serving(camera) as server:
        url = f"{server.whep}?rendition={rendition}"
        async with server.http.post(url, data=CHROMIUM, headers=SDP) as answer:
            assert answer.status == status


async def test_the_smaller_rendition_arrives_where_it_is_asked_for(camera: StandInCamera) -> None:
    decoder = av.CodecContext.create("h264", "r")
    async with serving(camera) as server, asyncio.timeout(60):
        async with await open_whep(server.whep, options=ClientOptions(rendition="sub")) as stream:
            async for unit in stream:
                sizes = {(frame.width, frame.height) for frame in decoder.decode(av.Packet(unit.data))}
                if (320, 180) in sizes:
                    break
        assert server.viewers.stats() == [] or server.viewers.stats()[0].rendition == "sub"


async def test_a_delete_after_the_client_closed_is_no_error(camera: StandInCamera) -> None:
    async with serving(camera) as server, asyncio.timeout(40):
        peer, offer = await make_offer()
        async with server.http.post(server.whep, data=offer.encode(), headers=SDP) as answer:
            session = server.url + answer.headers["Location"]
            await peer.setRemoteDescription(RTCSessionDescription(await answer.text(), "answer"))
        await peer.getReceivers()[0].track.recv()
        await peer.close()
        while len(server.viewers):
            await asyncio.sleep(0.05)
        for status in (200, 404):
            async with server.http.delete(session) as answer:
                assert answer.status == status
