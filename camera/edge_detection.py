"""Detection on edge workers beside the stream: it takes what it can in time and never holds the camera up.

Drop policy: one frame is at the workers, one is being planned and coded, the newest one waits; a frame that
comes while another waits takes its place, and the older one is counted as skipped. The frame that is coded
next is taken only shortly before the workers are free: what is sent is as fresh as can be.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from analytics.detector import DetectorConfig, load_detector
from analytics.pool import EdgeWorkers, Pool, PoolOptions, PoolResult, Prepared, WorkerAddress, WorkerState
from base.errors import UsageError, VeilError
from base.frames import ProtectedFrame

logger = logging.getLogger(__name__)

START_WAIT_S = 0.0  # the camera does not wait for workers
NOBODY_S = 0.1


@dataclass(frozen=True, slots=True)
class EdgeOptions:
    """Which workers, and how.

    Attributes:
        addresses: of the workers, at least one.
        pool: deadline, quality, policy.
        local: the camera's own detector as ``load_detector`` names it; None for none.

    Raises:
        UsageError: two workers of one name; the look is to be local and there is no detector, or trusted
            and nobody is.
    """

    addresses: tuple[WorkerAddress, ...]
    pool: PoolOptions = field(default_factory=PoolOptions)
    local: str | None = None

    def __post_init__(self) -> None:
        names = [address.name for address in self.addresses]
        if not names or len(set(names)) != len(names):
            message = f"workers: expected some of different names, got {', '.join(names) or 'none'}"
            raise UsageError(message)
        look = self.pool.policy.look
        if look == "local" and self.local is None:
            raise UsageError("workers.look: local needs workers.local, the camera's own detector")
        if look == "trusted" and self.local is None and not any(one.trusted for one in self.addresses):
            raise UsageError("workers.look: trusted needs a worker with `trusted: true`")


@dataclass(frozen=True, slots=True)
class EdgeState:
    """Edge detection at one moment.

    Attributes:
        frames: detected in.
        skipped: not, because others were under way.
        tiles: by what became of them: answered, moved (to another worker), local, missing.
        latency_s: of a frame, recent mean; None before the first.
        deadline_s: from the settings.
        sent_bytes: uploaded so far.
        sent_share: part of a frame that is uploaded, recent mean, 0 to 1 (more where tiles overlap).
        seen_share: by worker, the part of the last frame that it saw.
        workers: each of them.
    """

    frames: int
    skipped: int
    tiles: dict[str, int]
    latency_s: float | None
    deadline_s: float
    sent_bytes: int
    sent_share: float | None
    seen_share: dict[str, float]
    workers: tuple[WorkerState, ...]


class EdgeDetection:
    """One camera's detection stage. ``offer`` is for any thread, the rest for one event loop's."""

    def __init__(self, options: EdgeOptions, on_result: Callable[[PoolResult], None]) -> None:
        """Nothing is connected yet.

        Args:
            options: workers, policy.
            on_result: called on the event loop for every frame.

        Raises:
            UsageError: two workers of one name, or certificates that cannot be read.
            MissingDependency: gRPC without its extra.
        """
        self._options = options
        self._on_result = on_result
        self._workers = EdgeWorkers(options.addresses)
        self._pool: Pool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: tuple[int, ProtectedFrame] | None = None
        self._arrived = asyncio.Event()
        self._offered = self._frames = self._sent_bytes = 0
        self._taken = 0
        self._tiles = {"answered": 0, "moved": 0, "local": 0, "missing": 0}
        self._latency_s: float | None = None
        self._sent_share: float | None = None
        self._prepare_s = 0.02
        self._seen: dict[str, float] = {}

    def offer(self, frame: ProtectedFrame) -> None:
        """Take a protected frame if there is time for it; returns at once."""
        self._offered += 1
        self._waiting = (self._offered, frame)  # one reference, replaced as a whole: no lock
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._arrived.set)
            except RuntimeError:
                self._loop = None  # the camera is ending

    async def start(self) -> None:
        """Begin; connecting goes on in the background.

        Raises:
            VeilError: the camera's own detector cannot be loaded.
        """
        spec = self._options.local
        config = DetectorConfig(min_score=self._options.pool.min_score, threads=1)
        local = None if spec is None else await asyncio.to_thread(load_detector, spec, config)
        self._pool = Pool(self._workers, self._options.pool, local=local)
        await self._pool.start(wait_s=START_WAIT_S)
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(self._pool), name="edge-detection")

    async def close(self) -> None:
        """End it; harmless when repeated."""
        self._loop = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._pool is not None:
            await self._pool.close()
            self._pool = None
        await self._workers.close()

    def state(self) -> EdgeState:
        """Counters at this moment."""
        return EdgeState(
            frames=self._frames,
            skipped=max(0, self._offered - self._taken),
            tiles=dict(self._tiles),
            latency_s=self._latency_s,
            deadline_s=self._options.pool.deadline_s,
            sent_bytes=self._sent_bytes,
            sent_share=self._sent_share,
            seen_share=dict(self._seen),
            workers=self._workers.states(),
        )

    async def _run(self, pool: Pool) -> None:
        """Two frames overlap: this one is planned and coded while the one before is at the workers."""
        ahead: asyncio.Task[None] | None = None
        free_s = 0.0  # when the workers are expected to be free
        try:
            while True:
                await self._pause(ahead, free_s - 1.5 * self._prepare_s)
                if not pool.can_detect:
                    await asyncio.sleep(NOBODY_S)  # nobody could answer: frames pass
                    continue
                index, frame = await self._newest()
                began_s = time.monotonic()
                try:
                    prepared = await pool.prepare(frame, index)
                except Exception as error:  # whatever it is, only this frame is lost
                    _note(index, error)
                    continue
                self._prepare_s += 0.2 * (time.monotonic() - began_s - self._prepare_s)
                if ahead is not None:
                    await ahead
                free_s = time.monotonic() + min(prepared.plan.finish_s, self._options.pool.deadline_s)
                ahead = asyncio.create_task(self._infer(pool, prepared))
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

    @staticmethod
    async def _pause(ahead: asyncio.Task[None] | None, until_s: float) -> None:
        """Until the workers are nearly free, or are free already."""
        wait_s = until_s - time.monotonic()
        if ahead is not None and wait_s > 0:
            await asyncio.wait([ahead], timeout=wait_s)

    async def _newest(self) -> tuple[int, ProtectedFrame]:
        while True:
            self._arrived.clear()
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                self._taken += 1
                return waiting
            await self._arrived.wait()

    async def _infer(self, pool: Pool, prepared: Prepared) -> None:
        try:
            result = await pool.infer(prepared)
        except Exception as error:  # as a detector's run-time may raise; only this frame is lost
            _note(prepared.frame_index, error)
            return
        self._count(result)
        self._on_result(result)

    def _count(self, result: PoolResult) -> None:
        self._frames += 1
        self._sent_bytes += result.sent_bytes
        self._seen = dict(result.seen_share)
        for outcome in (*result.outcomes, *filter(None, (result.earlier_look,))):
            if outcome.kind != "pending":
                self._tiles[outcome.kind] += 1
        width, height = result.frame_wh
        area = sum(outcome.tile.sent_pixels for outcome in result.outcomes if outcome.sent_bytes)
        self._latency_s = _smooth(self._latency_s, result.latency_s)
        self._sent_share = _smooth(self._sent_share, area / (width * height))


def _note(frame_index: int, error: Exception) -> None:
    if isinstance(error, VeilError):
        logger.warning("edge detection: frame %d: %s", frame_index, error)
    else:
        logger.error("edge detection: frame %d: %s", frame_index, type(error).__name__, exc_info=error)


def _smooth(mean: float | None, value: float) -> float:
    return value if mean is None else 0.9 * mean + 0.1 * value
