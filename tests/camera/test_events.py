from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import hypothesis.strategies as st
import pytest
from hypothesis import given

from analytics.camera_report import CameraReport
from analytics.detections import DetectionRow
from base.errors import FormatError, LimitExceeded, Malformed
from camera.access import AccessToken, ListenAddress
from camera.access_log import AccessLog, classify
from camera.detections import MAX_ROWS, PictureDetections
from camera.events import KEPT_EVENTS, QUEUE_MESSAGES, EventHub
from camera.events_watch import CameraMoment, notices
from camera.http import HttpOptions, HttpServer
from camera.state import CameraView
from camera.webrtc.viewers import Viewers
from tests.support.serving import TOKEN
from tests.support.stand_in import StandInCamera

ROW = {"label": "person", "score": 0.9, "box_xyxy": [10, 20, 30, 80]}
WRONG = {"Authorization": "Bearer wrong-wrong-wrong-wrong"}
PICTURE = {"frame": 3, "time_s": 0.1, "width": 640, "height": 360, "detections": [ROW]}


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180) as running:
        yield running


@asynccontextmanager
async def serving(
    camera: StandInCamera, token: str | None = None
) -> AsyncIterator[tuple[str, EventHub, AccessLog, aiohttp.ClientSession]]:
    hub, log = EventHub("yard"), AccessLog()
    viewers = Viewers(camera)
    options = HttpOptions(ListenAddress("127.0.0.1", 0), AccessToken(token) if token else None)
    server = HttpServer(CameraView("yard", camera, viewers), options, (hub, log))
    await server.start()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with aiohttp.ClientSession(headers=headers) as http:
            yield server.url, hub, log, http
    finally:
        await server.close()
        await viewers.close()


async def messages(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, Any]]:
    """The next server-sent events: name and JSON."""
    found: list[tuple[str, Any]] = []
    name = ""
    async with asyncio.timeout(10):
        while len(found) < count:
            line = (await response.content.readline()).decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                found.append((name, json.loads(line[6:])))
    return found


# -- what detectors send


def test_a_line_of_detect_is_taken_and_its_boxes_are_cut_to_the_picture() -> None:
    row = {"label": "car", "score": 1, "box_xyxy": [-5, 0, 9999, 360]}
    picture = PictureDetections.parse(json.dumps({**PICTURE, "detections": [row]}).encode())
    assert picture.rows == (DetectionRow(label="car", score=1.0, box_xyxy=[0.0, 0.0, 640.0, 360.0]),)


@pytest.mark.parametrize(
    "change",
    [
        {"width": 0},
        {"width": True},
        {"height": 1e9},
        {"detections": None},
        {"detections": [1]},
        {"detections": [{**ROW, "label": ""}]},
        {"detections": [{**ROW, "label": "a\nb"}]},
        {"detections": [{**ROW, "score": 1.5}]},
        {"detections": [{**ROW, "score": float("nan")}]},
        {"detections": [{**ROW, "box_xyxy": [1, 2, 3]}]},
        {"detections": [{**ROW, "box_xyxy": [30, 20, 10, 80]}]},
        {"detections": [{**ROW, "box_xyxy": [0, 0, float("inf"), 1]}]},
        {"detections": [{**ROW, "box_xyxy": [0, 0, 10**400, 1]}]},
    ],
)
def test_what_is_no_detection_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        PictureDetections.parse(json.dumps({**PICTURE, **change}).encode())


def test_too_many_detections_are_refused() -> None:
    with pytest.raises(LimitExceeded):
        PictureDetections.parse(json.dumps({**PICTURE, "detections": [ROW] * (MAX_ROWS + 1)}).encode())
    with pytest.raises(LimitExceeded):
        PictureDetections.parse(b" " * 65_537)
    with pytest.raises(Malformed):
        PictureDetections.parse(b"[" * 60_000)


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["width", "height", "detections", "label"]), inner, max_size=4)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        PictureDetections.parse(data)
    except FormatError:
        return


@given(
    st.lists(
        st.tuples(
            st.text("ab", min_size=1, max_size=3), st.floats(0, 1), st.integers(0, 50), st.integers(0, 50)
        ),
        max_size=5,
    )
)
def test_detections_survive_the_way_there_and_back(rows: list[tuple[str, float, int, int]]) -> None:
    made = tuple(
        DetectionRow(label=label, score=score, box_xyxy=[0.0, 0.0, float(right), float(bottom)])
        for label, score, right, bottom in rows
    )
    picture = PictureDetections(64, 64, made)
    assert PictureDetections.parse(json.dumps(picture.to_json()).encode()) == picture


# -- over HTTP


async def test_boxes_that_a_detector_posts_reach_the_page_at_once_and_become_events(
    camera: StandInCamera,
) -> None:
    async with serving(camera) as (url, _, log, http), http.get(url + "/api/v1/events/stream") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        for _ in range(2):
            async with http.post(url + "/api/v1/detections", json=PICTURE) as answer:
                assert answer.status == 204
        (first, boxes), _, (third, event) = await messages(stream, 3)
        assert (first, boxes["detections"][0]["label"], boxes["width"]) == ("detections", "person", 640)
        assert (third, event["type"], event["after"]["label"]) == ("event", "new", "person")
        assert abs(event["time_s"] - time.time()) < 10
        async with http.get(url + "/api/v1/events") as answer:
            listed = (await answer.json())["events"]
        assert listed == [event]
        async with http.get(url + f"/api/v1/events?after={event['number']}") as answer:
            assert (await answer.json())["events"] == []
        assert [(entry.action, entry.count) for entry in log.entries()] == [("detections-sent", 2)]


async def test_posting_needs_the_token_and_reading_too(camera: StandInCamera) -> None:
    async with serving(camera, TOKEN) as (url, hub, log, http):
        for path in ("/api/v1/events", "/api/v1/events/stream", "/api/v1/access"):
            async with http.get(
                url + path, headers={"Authorization": "Bearer wrong-wrong-wrong-wrong"}
            ) as answer:
                assert answer.status == 401
        async with http.post(
            url + "/api/v1/detections", json=PICTURE, headers={"Authorization": ""}
        ) as answer:
            assert answer.status == 401
        assert hub.recent() == []
        async with http.get(url + "/api/v1/access") as answer:
            entries = (await answer.json())["entries"]
        assert [(entry["action"], entry["count"]) for entry in entries] == [("refused", 4)]
        assert log.entries()[0].client == "127.0.0.1"


@pytest.mark.parametrize(("body", "status"), [(b"x", 400), (b"x" * 70_000, 413)])
async def test_bad_detections_get_a_problem_and_not_a_500(
    camera: StandInCamera, body: bytes, status: int
) -> None:
    async with serving(camera) as (url, *_, http):
        async with http.post(url + "/api/v1/detections", data=body) as answer:
            assert answer.status == status
            assert answer.content_type == "application/problem+json"
        async with http.get(url + "/api/v1/events?after=-1") as answer:
            assert answer.status == 400


async def test_a_slow_reader_loses_the_oldest_messages_and_holds_nobody_up(camera: StandInCamera) -> None:
    async with serving(camera) as (url, hub, _, http), http.get(url + "/api/v1/events/stream") as stream:
        picture = PictureDetections.parse(json.dumps(PICTURE).encode())
        async with asyncio.timeout(5):
            while not hub._readers:
                await asyncio.sleep(0.01)
        start_s = time.monotonic()
        for _ in range(500):
            hub.detected(picture)
        assert time.monotonic() - start_s < 5
        assert all(len(reader.messages) <= QUEUE_MESSAGES for reader in hub._readers)
        hub.publish(*notices("yard", None, CameraMoment(live=True), 1.0))
        while (await messages(stream, 1))[0][1].get("name") != "live":
            pass


async def test_the_list_of_events_is_bounded_and_streams_end_with_the_server(camera: StandInCamera) -> None:
    async with serving(camera) as (url, hub, _, http):
        for number in range(KEPT_EVENTS + 100):
            hub.publish(*notices("yard", None, CameraMoment(live=True), number))
        assert len(hub.recent()) == KEPT_EVENTS
        stream = await http.get(url + "/api/v1/events/stream")
        start_s = time.monotonic()
    assert time.monotonic() - start_s < 3
    stream.close()


# -- the camera itself


def test_changes_of_the_camera_are_told_once() -> None:
    start = CameraMoment(live=False, recording=True)
    later = CameraMoment(live=True, recording=False, recorder_error="disk full", viewers=frozenset({1, 2}))
    end = CameraMoment(live=True, recording=True, viewers=frozenset({2}), error="encoder: gone")
    assert [n.name for n in notices("a", None, start, 0)] == ["not-live", "recording"]
    assert [n.name for n in notices("a", start, start, 1)] == []
    told = notices("a", start, later, 2)
    assert [(n.name, n.detail) for n in told][1:] == [
        ("recording-stopped", "disk full"),
        ("viewer-joined", "viewer 1"),
        ("viewer-joined", "viewer 2"),
    ]
    assert [n.name for n in notices("a", later, end, 3)] == ["recording", "viewer-left", "error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("POST", "/whep", 201, ("live-opened", "")),
        ("DELETE", "/whep/session/abc", 200, ("live-closed", "")),
        ("POST", "/whip", 201, ("push-began", "")),
        ("DELETE", "/whip/session/abc", 200, ("push-ended", "")),
        ("PATCH", "/whip/session/abc", 204, None),
        ("PATCH", "/whep/session/abc", 204, None),
        ("POST", "/whep", 406, None),
        ("GET", "/api/v1/state", 401, ("refused", "no or wrong token")),
        ("GET", "/api/v1/state", 200, None),
        ("GET", "/api/v1/recordings/2026-11-30/a.mp4/12", 200, ("recording-watched", "a.mp4")),
        ("GET", "/api/v1/recordings/2026-11-30/a.mp4", 206, ("recording-downloaded", "a.mp4")),
        ("GET", "/api/v1/recordings/2026-11-30/a.mp4/index", 200, None),
    ],
)
def test_requests_are_told_in_words(
    method: str, path: str, status: int, expected: tuple[str, str] | None
) -> None:
    assert classify(method, path, status) == expected


def test_the_access_log_counts_repetitions_within_two_minutes_and_is_bounded() -> None:
    now_s = [1000.0]
    log = AccessLog(lambda: now_s[0])
    for _ in range(5):
        log.note("10.0.0.1", "recording-watched", "a.mp4")
        now_s[0] += 100
    now_s[0] += 100
    log.note("10.0.0.1", "recording-watched", "a.mp4")
    assert [entry.count for entry in log.entries()] == [1, 5]
    for number in range(2000):
        log.note(f"10.0.{number}", "live-opened")
    assert len(log.entries()) == 500


async def test_what_detect_reports_is_drawn_by_the_page(camera: StandInCamera) -> None:
    async with (
        serving(camera, TOKEN) as (url, _, _, http),
        http.get(url + "/api/v1/events/stream") as stream,
    ):
        with CameraReport(url + "/whep", TOKEN) as report:
            report.take(PICTURE)
            (name, boxes) = (await messages(stream, 1))[0]
        assert (name, boxes["detections"][0]["label"]) == ("detections", "person")
