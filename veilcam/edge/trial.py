"""Trying workers without a camera."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from analytics.pool import EdgeWorkers, WorkerAddress, WorkerState


async def try_workers(addresses: Sequence[WorkerAddress], *, wait_s: float) -> tuple[WorkerState, ...]:
    """What each worker is like after its first probe; those that fail are tried again until ``wait_s``.

    Raises:
        UsageError: two of one name, or certificates that cannot be read.
        MissingDependency: gRPC without its extra.
    """
    workers = EdgeWorkers(addresses)
    until_s = time.monotonic() + wait_s
    try:
        await workers.start(wait_s=wait_s)
        while len(workers.available()) < len(addresses) and time.monotonic() < until_s:
            await asyncio.sleep(0.05)
        return workers.states()
    finally:
        await workers.close()
