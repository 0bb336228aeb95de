"""Bad requests by the hundred (bench.http_fuzz: 20,000): no 5xx, no hang, nothing left behind or logged."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from camera.access_log import AccessLog
from camera.events import EventHub
from camera.recordings import RecordingFolder
from camera.recordings_api import RecordingsApi
from camera.sources.pushed import PushedSource
from camera.webrtc.ingest import WhipIngest
from tests.support.bad_requests import Fuzzer
from tests.support.recordings import record_day
from tests.support.serving import TOKEN, serving
from tests.support.stand_in import StandInCamera

CLIENTS = 4
REQUESTS_EACH = 75


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180, fps=5) as running:
        yield running


async def test_no_bad_request_costs_more_than_its_answer(
    camera: StandInCamera, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (path,) = record_day(tmp_path / "yard", [(datetime(2026, 3, 1, 12, tzinfo=UTC), 4.0)])
    recording = f"/api/v1/recordings/2026-03-01/{path.name}"
    parts = (EventHub("yard"), AccessLog(), RecordingsApi(RecordingFolder(tmp_path / "yard")))
    tasks = len(asyncio.all_tasks())
    async with serving(
        camera, token=TOKEN, ingest_token=TOKEN, burst=10**6, parts=(*parts, WhipIngest(PushedSource()))
    ) as server:
        fuzzers = [Fuzzer(server.url, seed, token=TOKEN, recording=recording) for seed in range(CLIENTS)]
        outcomes = await asyncio.gather(*(fuzzer.run(REQUESTS_EACH) for fuzzer in fuzzers))
        async with asyncio.timeout(40):
            while len(server.viewers):
                await asyncio.sleep(0.05)
    assert [failure for outcome in outcomes for failure in outcome.failures] == []
    statuses = sum((outcome.statuses for outcome in outcomes), Counter[int]())
    assert {200, 201, 400, 404, 405, 415} <= set(statuses)  # the requests are not all refused at the door
    async with asyncio.timeout(20):  # ICE that was under way ends a moment after its session
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.05)
    assert TOKEN not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "x"])
async def test_a_body_with_a_content_encoding_is_refused_before_it_is_decoded(
    camera: StandInCamera, coding: str
) -> None:
    headers = {"Content-Type": "application/sdp", "Content-Encoding": coding}
    async with (
        serving(camera) as server,
        server.http.post(server.whep, data=b"no such thing", headers=headers) as answer,
    ):
        assert answer.status == 415
        assert answer.headers["Accept-Encoding"] == "identity"
        assert (await answer.json(content_type="application/problem+json"))["code"] == "content-encoding"


async def test_what_is_no_http_is_not_logged(camera: StandInCamera, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(camera, token=TOKEN) as server:
        port = int(server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\x01\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.0 400")
        writer.close()
    assert TOKEN not in caplog.text
