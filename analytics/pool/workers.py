"""The workers of one process: connecting, probing and watching them, for every pool that uses them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from analytics.elf.types import WorkerView
from analytics.pool.address import WorkerAddress
from analytics.pool.result import WorkerState
from analytics.pool.transport import Transport
from analytics.pool.worker import EdgeWorker
from base.errors import UsageError

logger = logging.getLogger(__name__)

TICK_S = 0.1
IDLE_CHECK_S = 2.0  # a worker without work is asked for its health so often
MAX_WORKERS = 64

OpenTransport = Callable[[WorkerAddress], Transport]


class EdgeWorkers:
    """Start it, let any number of pools use it, close it. All on one event loop."""

    def __init__(
        self, addresses: Sequence[WorkerAddress], *, open_transport: OpenTransport | None = None
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            addresses: at least one, at most 64, with names of their own.
            open_transport: other than ``analytics.pool.connect.open_transport``.

        Raises:
            UsageError: no worker, too many, or two of one name; a certificate file that cannot be read.
            MissingDependency: gRPC without its extra.
        """
        names = [address.name for address in addresses]
        if not 1 <= len(names) <= MAX_WORKERS or len(set(names)) != len(names):
            message = f"workers: expected 1 to {MAX_WORKERS} of different names, got {names}"
            raise UsageError(message)
        connect = open_transport or _open_transport
        self._workers = {address.name: EdgeWorker(address, connect(address)) for address in addresses}
        self._names: tuple[str, ...] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """What the workers can find; None before the first has told."""
        return self._names

    @property
    def all(self) -> tuple[EdgeWorker, ...]:
        """Every worker, in the settings' order."""
        return tuple(self._workers.values())

    def available(self) -> list[EdgeWorker]:
        """Those that may be given a tile now."""
        return [worker for worker in self._workers.values() if worker.available]

    def views(self) -> list[WorkerView]:
        """What planners are told of them."""
        return [worker.view() for worker in self.available()]

    def find(self, name: str) -> EdgeWorker | None:
        """By name."""
        return self._workers.get(name)

    def states(self) -> tuple[WorkerState, ...]:
        """For pages and metrics."""
        return tuple(worker.state() for worker in self._workers.values())

    async def start(self, *, wait_s: float = 5.0) -> None:
        """Begin to watch; returns when every worker was tried once, or after ``wait_s``; harmless again."""
        if self._tasks:
            return
        tried = [asyncio.Event() for _ in self._workers]
        self._tasks = [
            asyncio.create_task(self._watch(worker, event), name=f"worker-{worker.name}")
            for worker, event in zip(self._workers.values(), tried, strict=True)
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                for event in tried:
                    await event.wait()

    async def close(self) -> None:
        """End every connection; harmless when repeated."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for worker in self._workers.values():
            await worker.close()

    async def _watch(self, worker: EdgeWorker, tried: asyncio.Event) -> None:
        while True:
            if worker.breaker.state == "half-open":
                await worker.probe(is_first=worker.estimate.num_observations == 0)
                self._check_names(worker)
                tried.set()
            elif worker.available and time.monotonic() - worker.last_used_s > IDLE_CHECK_S:
                await worker.check_health()
            await asyncio.sleep(max(TICK_S, min(worker.breaker.wait_s, 1.0)))

    def _check_names(self, worker: EdgeWorker) -> None:
        """Boxes of detectors with different classes cannot be merged."""
        if worker.served is None or not worker.available:
            return
        self._names = self._names or worker.served.names
        if worker.served.names != self._names:
            worker.refuse(
                f"it serves {worker.served.model} with other classes than the first worker: use one detector"
            )
            worker.served = None


def _open_transport(address: WorkerAddress) -> Transport:
    from analytics.pool.connect import open_transport  # noqa: PLC0415  # the protocols' libraries

    return open_transport(address)
