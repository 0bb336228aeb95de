"""A running camera with a synthetic scene, whose detection runs on given workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from analytics.pool import PoolOptions, WorkerAddress
from camera.access import ListenAddress
from camera.edge_detection import EdgeOptions
from camera.http import HttpOptions
from camera.pipeline import Pipeline
from camera.service import CameraService, ServiceOptions, run_service
from camera.sources import open_source
from keys import CameraKey, EpochRing, Recipient
from tests.support.blur import BlurProtector

POOL = PoolOptions(deadline_s=1.0, camera="gate")


@asynccontextmanager
async def edge_camera(*urls: str, fps: int = 10, size: str = "320x192") -> AsyncIterator[CameraService]:
    """A running camera with a synthetic scene and these workers."""
    camera_key = CameraKey.generate("gate")
    recipient, _ = Recipient.generate("custodian")
    pipeline = Pipeline(
        open_source(f"synthetic:?size={size}&fps={fps}"),
        BlurProtector(),
        camera_key,
        EpochRing(camera_key.camera_id, [recipient]),
    )
    addresses = tuple(WorkerAddress(url, f"edge-{n}") for n, url in enumerate(urls, 1))
    options = ServiceOptions(
        "gate",
        HttpOptions(listen=ListenAddress("127.0.0.1", 0)),
        edge=EdgeOptions(addresses, POOL) if addresses else None,
    )
    stop = asyncio.Event()
    ready: asyncio.Future[CameraService] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(run_service(pipeline, options, on_ready=ready.set_result, stop=stop))
    try:
        yield await asyncio.wait_for(ready, 60)
    finally:
        stop.set()
        await asyncio.wait_for(running, 60)
