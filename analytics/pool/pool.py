"""One camera's detection on edge workers: plan, cut, send, merge, learn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import ParamSpec, TypeVar

from analytics.elf.planner import Planner
from analytics.elf.types import FramePlan, Tile, WorkerView
from analytics.interface import Detector
from analytics.pool.audit import Auditor
from analytics.pool.dispatch import FrameDispatch
from analytics.pool.local import LocalDetector
from analytics.pool.memory import Answered, FramePlanner, Memory
from analytics.pool.options import PoolOptions
from analytics.pool.result import PoolResult, TileOutcome, WorkerState
from analytics.pool.tiles import CutTile, cut
from analytics.pool.workers import EdgeWorkers
from base.frames import ProtectedFrame

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A frame that is planned, cut and coded, and not yet sent."""

    frame_index: int
    frame_wh: tuple[int, int]
    plan: FramePlan
    cuts: list[CutTile]
    look: CutTile | None
    plan_s: float
    encode_s: float


class Pool:
    """Detects in a camera's protected frames on the process's edge workers.

    ``detect`` is one frame at a time. A stream overlaps two: while one frame is at the workers (``infer``)
    the next is planned, cut and coded (``prepare``); more are never held. Boxes of a frame are given out when
    its tiles are answered; a look may still be on its way then. Used from one event loop; heavy work happens
    in two threads.
    """

    def __init__(
        self,
        workers: EdgeWorkers,
        options: PoolOptions | None = None,
        *,
        planner: FramePlanner | None = None,
        local: Detector | None = None,
    ) -> None:
        """Nothing is connected yet.

        Args:
            workers: shared by all pools of the process; started by ``start``, closed by their owner.
            options: deadline, quality, policy.
            planner: another way of cutting frames (benchmarks); analytics.elf.Planner if None.
            local: the camera's own detector, for looks and for what no worker answers.
        """
        self.workers = workers
        options = options or PoolOptions()
        policy = replace(options.policy, local_detector=local is not None)
        self.options = replace(options, policy=policy)
        self._memory = Memory(planner or Planner(policy), self.options.min_score)
        self.auditor = Auditor(workers, self.options)
        self._local = None if local is None else LocalDetector(local)
        self._threads = ThreadPoolExecutor(2, "veilcam-tiles")
        self._index = -1
        self._look: asyncio.Task[TileOutcome] | None = None  # of an earlier frame, still on its way
        self._ended: TileOutcome | None = None  # one that has ended and was not told of yet

    async def start(self, *, wait_s: float = 5.0) -> None:
        """Connect to the workers; returns when each was tried, at the latest after ``wait_s``."""
        await self.workers.start(wait_s=wait_s)

    async def close(self) -> None:
        """Give the threads back. The workers stay open for other pools."""
        await self._end_look()
        await self.auditor.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._local is not None:
            self._local.close()

    @property
    def can_detect(self) -> bool:
        """There is somebody to ask."""
        return self._local is not None or bool(self.workers.available())

    def states(self) -> tuple[WorkerState, ...]:
        """The workers at this moment."""
        return self.workers.states()

    async def detect(self, frame: ProtectedFrame, frame_index: int | None = None) -> PoolResult:
        """Detect in one frame.

        Args:
            frame: protected; anything else is refused.
            frame_index: rising; counted if None.

        Raises:
            UsageError: not a protected frame.
        """
        return await self.infer(await self.prepare(frame, frame_index))

    async def prepare(self, frame: ProtectedFrame, frame_index: int | None = None) -> Prepared:
        """Plan, cut and code a frame, in a thread; may run while another frame is at the workers.

        Raises:
            UsageError: not a protected frame, or an index that does not rise.
        """
        self._index = self._index + 1 if frame_index is None else frame_index
        views = self.workers.views()
        if self._local is not None:
            self._local.names = self.workers.class_names
            if not views:
                views.append(self._local.view())
        return await self._in_thread(self._prepare, frame, self._index, views, self._ended_look())

    async def infer(self, prepared: Prepared) -> PoolResult:
        """Send a prepared frame, collect what comes in time, merge."""
        began_s = time.monotonic()
        dispatch = FrameDispatch(
            self.workers,
            self._local,
            self.options,
            prepared.frame_wh,
            prepared.plan.predicted_finish_s,
        )
        outcomes = await self._send(prepared, dispatch)
        self.auditor.consider(prepared.cuts, outcomes, dispatch.seen_share, prepared.frame_wh)
        ended, told = self._ended_look(), self._ended
        self._ended = None
        frame = Answered(prepared.frame_index, prepared.frame_wh, prepared.plan, outcomes)
        merged = await self._in_thread(self._memory.take, frame, ended, self._names())
        infer_s = time.monotonic() - began_s
        return PoolResult(
            frame_index=prepared.frame_index,
            frame_wh=prepared.frame_wh,
            detections=merged,
            outcomes=tuple(outcomes),
            earlier_look=ended or told,
            plan=prepared.plan,
            latency_s=prepared.plan_s + prepared.encode_s + infer_s,
            plan_s=prepared.plan_s,
            encode_s=prepared.encode_s,
            infer_s=infer_s,
            seen_share=dispatch.seen_share,
        )

    async def settle(self) -> None:
        """Wait for a look that is still on its way (benchmarks, the end of a file)."""
        if self._look is not None:
            await asyncio.wait([self._look])
        await self.auditor.settle()

    async def _send(self, prepared: Prepared, dispatch: FrameDispatch) -> list[TileOutcome]:
        """Every tile's outcome, the look's last: pending if it takes longer than the tiles."""
        tiles = asyncio.create_task(dispatch.tiles(prepared.cuts))
        if prepared.look is None:
            return await tiles
        await asyncio.sleep(0)  # the tiles go first
        await self._end_look()  # one at a time
        look = asyncio.create_task(dispatch.look(prepared.look))
        try:
            outcomes = await tiles
            if not outcomes:
                await asyncio.wait([look])
        except asyncio.CancelledError:
            look.cancel()
            raise
        if look.done():
            return [*outcomes, look.result()]
        self._look = look
        return [*outcomes, dispatch.pending(prepared.look)]

    def _ended_look(self) -> TileOutcome | None:
        """The outcome of a look of an earlier frame, once."""
        look = self._look
        if look is None or not look.done() or look.cancelled():
            return None
        self._look, self._ended = None, look.result()
        return self._ended

    async def _end_look(self) -> None:
        look, self._look = self._look, None
        if look is not None and not look.done():
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)

    def _prepare(
        self, frame: ProtectedFrame, frame_index: int, views: list[WorkerView], ended: TileOutcome | None
    ) -> Prepared:
        began_s = time.monotonic()
        plan = self._memory.plan(frame, frame_index, views, ended, self._names())
        planned_s = time.monotonic()
        cuts = [self._cut(frame, tile) for tile in plan.tiles]
        look = None if plan.look is None else self._cut(frame, plan.look)
        encode_s = time.monotonic() - planned_s
        frame_wh = (frame.width, frame.height)
        return Prepared(frame_index, frame_wh, plan, cuts, look, planned_s - began_s, encode_s)

    def _cut(self, frame: ProtectedFrame, tile: Tile) -> CutTile:
        """The tile, coded already where its owner takes JPEG."""
        piece = cut(frame, tile)
        worker = self.workers.find(tile.worker)
        if worker is not None and worker.address.kind == "veilcam":
            self._memory.learn_bytes(piece.pixels, len(piece.jpeg(self.options.jpeg_quality)))
        return piece

    def _names(self) -> tuple[str, ...]:
        local = () if self._local is None else self._local.class_names
        return self.workers.class_names or local

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        call = partial(work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
