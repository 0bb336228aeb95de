"""``camera run`` as a whole: synthetic scene, recorder, viewers, HTTP; started and ended in order."""

from __future__ import annotations

import asyncio
import os
import signal
from fractions import Fraction
from pathlib import Path

import aiohttp
import pytest

from analytics.whep_client import open_whep
from base.errors import VeilError
from base.frames import ClearFrame, ProtectedFrame
from camera.access import ListenAddress
from camera.http import HttpOptions, ListenError
from camera.pipeline import Pipeline
from camera.recorder import RecorderOptions
from camera.service import CameraService, ServiceOptions, run_service
from camera.sources import open_source
from codec.container import read_access_units
from codec.unseal import read_segments
from keys import CameraKey, EpochRing, Recipient
from tests.support.blur import BlurProtector

ANY_PORT = HttpOptions(listen=ListenAddress("127.0.0.1", 0))


def make_pipeline(source: str = "synthetic:?size=320x180&fps=25", *, realtime: bool = True) -> Pipeline:
    camera_key = CameraKey.generate("gate")
    recipient, _ = Recipient.generate("custodian")
    epochs = EpochRing(camera_key.camera_id, [recipient])
    return Pipeline(open_source(source, realtime=realtime), BlurProtector(), camera_key, epochs)


async def test_a_viewer_and_a_recording_get_the_same_segments(tmp_path: Path) -> None:
    stop = asyncio.Event()
    ready: asyncio.Future[CameraService] = asyncio.get_running_loop().create_future()
    options = ServiceOptions("gate", ANY_PORT, record=RecorderOptions(tmp_path, "gate", min_free_bytes=0))
    running = asyncio.create_task(run_service(make_pipeline(), options, on_ready=ready.set_result, stop=stop))
    service = await asyncio.wait_for(ready, 30)
    await until_live(service.url)
    seen = 0
    async with asyncio.timeout(40), await open_whep(service.whep_url) as stream:
        async for _ in stream:
            seen += 1
            if seen == 80:
                break
    stop.set()
    await asyncio.wait_for(running, 30)
    files = list(tmp_path.rglob("*.mp4"))
    assert len(files) == 1
    assert not list(tmp_path.rglob("*.part"))
    segments = list(read_segments(read_access_units(files[0])))
    assert len(segments) >= 2
    assert Fraction(service.pipeline.stats().segments) == len(segments)
    with pytest.raises(aiohttp.ClientConnectionError):
        await until_live(service.url)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    pipeline = make_pipeline()
    ready = asyncio.Event()
    running = asyncio.create_task(
        run_service(pipeline, ServiceOptions(http=ANY_PORT), on_ready=lambda _: ready.set())
    )
    await asyncio.wait_for(ready.wait(), 30)
    await asyncio.sleep(0.5)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(running, 30)
    assert pipeline.join(0)
    assert pipeline.stats().state == "ended"


async def test_it_ends_by_itself_with_its_source() -> None:
    pipeline = make_pipeline("synthetic:?size=320x180&fps=25&seconds=1", realtime=False)
    await asyncio.wait_for(run_service(pipeline, ServiceOptions(http=ANY_PORT)), 30)
    assert pipeline.stats().frames_out == 25


async def test_a_failing_stage_is_the_services_error() -> None:
    class Failing(BlurProtector):
        def protect(self, frame: ClearFrame, *, renew: bool = False) -> ProtectedFrame:
            message = "no more"
            raise VeilError(message)

    camera_key = CameraKey.generate("gate")
    recipient, _ = Recipient.generate("custodian")
    pipeline = Pipeline(
        open_source("synthetic:?size=320x180&fps=25", realtime=True),
        Failing(),
        camera_key,
        EpochRing(camera_key.camera_id, [recipient]),
    )
    with pytest.raises(VeilError, match="no more"):
        await asyncio.wait_for(run_service(pipeline, ServiceOptions(http=ANY_PORT)), 30)


async def test_a_port_in_use_is_found_before_anything_starts() -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pipeline = make_pipeline()
    options = ServiceOptions(http=HttpOptions(listen=ListenAddress("127.0.0.1", port)))
    with pytest.raises(ListenError, match=f"port {port}"):
        await run_service(pipeline, options)
    assert pipeline.stats().frames_in == 0
    server.close()


async def until_live(url: str) -> None:
    async with asyncio.timeout(40), aiohttp.ClientSession() as http:
        while True:
            async with http.get(url + "readyz") as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.05)
