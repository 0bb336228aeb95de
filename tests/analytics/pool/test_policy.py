"""What workers really get of each frame, while they refuse, dawdle and are audited."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections import Counter

import cv2
import numpy as np
import pytest
from aiohttp import web

from analytics.elf.types import Policy
from analytics.pool import EdgeWorkers, Pool, PoolOptions, WorkerAddress
from analytics.pool.breaker import Breaker
from base.frames import ProtectedFrame
from tests.support.edge_worker import ScriptedWorker, frame_of, moving

SHARES = (0.15, 0.3, 0.5, 1.0)
WH = (640, 384)
FRAMES = 12
DARKEST, STEP = 20, 8  # the background's grey, which tells of which frame a tile is


class Unreliable(ScriptedWorker):
    """Counts the pixels that it was sent of each frame, and often fails."""

    chance: random.Random
    is_measured: bool = False

    async def _infer(self, request: web.Request) -> web.Response:
        if self.is_measured:
            self.status = self.chance.choice((200, 200, 200, 503, 500))
            self.delay_s = self.chance.choice((0.0, 0.0, 0.05, 0.15, 0.5))
        return await super()._infer(request)

    def seen_share(self) -> float:
        """The largest part of a frame that was sent here."""
        pixels = Counter[int]()
        for asked in self.tiles:
            jpeg = np.frombuffer(asked.inputs[0].strings()[0], np.uint8)
            image = cv2.imdecode(jpeg, cv2.IMREAD_GRAYSCALE)
            assert image is not None
            pixels[round((float(np.percentile(image, 10)) - DARKEST) / STEP)] += image.size
        assert set(pixels) <= set(range(FRAMES))
        return max(pixels.values(), default=0) / (WH[0] * WH[1])


def frame(step: int) -> ProtectedFrame:
    shapes = frame_of(moving(step, 6), WH)
    scale = 219 / 255  # of limited range
    luma = np.where(shapes.luma_hw > 100, shapes.luma_hw, 16 + scale * (DARKEST + STEP * step))
    return dataclasses.replace(shapes, luma_hw=luma.astype(np.uint8))


@pytest.mark.parametrize("seed", range(2))
async def test_no_worker_gets_more_of_any_frame_than_its_share_whatever_fails(seed: int) -> None:
    workers = []
    for n in range(len(SHARES)):
        worker = Unreliable()
        worker.chance = random.Random(10 * seed + n)
        workers.append(await worker.__aenter__())
    shared = EdgeWorkers(
        [
            WorkerAddress(worker.url, f"w{n}", max_share=share)
            for n, (worker, share) in enumerate(zip(workers, SHARES, strict=True))
        ]
    )
    options = PoolOptions(0.3, policy=Policy(look_every=(2, 3)), audit_every=1)
    pool = Pool(shared, options)
    try:
        await pool.start()
        for worker in workers:
            worker.is_measured = True
        results = []
        for step in range(FRAMES):
            results.append(await pool.detect(frame(step), step))
            for known in shared.all:
                known.breaker = Breaker(time.monotonic)
                known.breaker.success()  # nobody is left alone, so that failures go on
        await pool.settle()
        await asyncio.sleep(0.2)
    finally:
        await pool.close()
        await shared.close()
        for worker in workers:
            await worker.stop()
    seen = [worker.seen_share() for worker in workers]
    assert sum(len(worker.tiles) for worker in workers) >= FRAMES
    assert {"moved", "missing"} & {outcome.kind for result in results for outcome in result.outcomes}
    assert all(most <= share for most, share in zip(seen[:-1], SHARES, strict=False))
