"""A running camera tells what happens, and serves the recording that it is writing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp

from analytics.event_targets import FileTarget
from camera.access import ListenAddress
from camera.http import HttpOptions
from camera.pipeline import Pipeline
from camera.recorder import RecorderOptions
from camera.service import CameraService, ServiceOptions, run_service
from camera.sources import open_source
from keys import CameraKey, EpochRing, Recipient
from tests.support.blur import BlurProtector


async def test_a_camera_tells_that_it_is_live_and_shows_its_open_recording(
    tmp_path: Path,
) -> None:
    camera_key = CameraKey.generate("gate")
    recipient, _ = Recipient.generate("custodian")
    source = open_source("synthetic:?size=320x180&fps=10")
    pipeline = Pipeline(source, BlurProtector(), camera_key, EpochRing(camera_key.camera_id, [recipient]))
    log = tmp_path / "events.jsonl"
    options = ServiceOptions(
        "gate",
        HttpOptions(listen=ListenAddress("127.0.0.1", 0)),
        record=RecorderOptions(tmp_path, "gate", min_free_bytes=0),
        events=(FileTarget(log),),
    )
    stop = asyncio.Event()
    ready: asyncio.Future[CameraService] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(run_service(pipeline, options, on_ready=ready.set_result, stop=stop))
    service = await asyncio.wait_for(ready, 60)
    entries: list[dict[str, object]] = []
    async with asyncio.timeout(90), aiohttp.ClientSession() as http:
        while not entries or "live" not in log.read_text().split('"'):
            await asyncio.sleep(0.2)
            async with http.get(service.url + "api/v1/recordings") as answer:
                entries = (await answer.json())["recordings"]
        first = f"api/v1/recordings/{entries[0]['day']}/{entries[0]['name']}/0"
        async with http.get(service.url + first) as answer:
            assert answer.status == 200
            assert (await answer.read())[4:8] == b"moof"
    stop.set()
    await asyncio.wait_for(running, 60)
    assert entries[0]["is_open"] is True
    names = [json.loads(line)["name"] for line in log.read_text().splitlines()]
    assert names.count("live") == 1
    assert names.count("recording") == 1
    assert "error" not in names
