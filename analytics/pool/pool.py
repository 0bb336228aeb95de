"""One camera's detection on edge workers: plan, cut, send, merge, learn."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from analytics.detections import Detections
from analytics.elf.merge import merge
from analytics.elf.planner import Planner
from analytics.elf.types import FramePlan, Tile, WorkerView
from analytics.interface import Detector, DetectorConfig
from analytics.pool.dispatch import FrameDispatch
from analytics.pool.local import LocalDetector
from analytics.pool.options import PoolOptions
from analytics.pool.result import PoolResult, TileOutcome, WorkerState
from analytics.pool.tiles import CutTile, cut
from analytics.pool.workers import EdgeWorkers
from base.frames import ProtectedFrame

KNOWN_SHARE = 0.3  # of the smaller of two boxes: above, they are taken for one object that has moved


class FramePlanner(Protocol):
    """What the pool needs of a planner: analytics.elf.Planner, or another way to cut frames."""

    def plan(self, frame_index: int, frame_wh: tuple[int, int], workers: list[WorkerView]) -> FramePlan:
        """The tiles of a frame."""

    def observe(self, frame_index: int, merged: Detections) -> None:
        """What was found in it."""


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
    the next is planned, cut and coded (``prepare``); more are never held. Used from one event loop; heavy
    work happens in two threads.
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
        self.options = options or PoolOptions()
        self._planner: FramePlanner = planner or Planner(self.options.policy)
        self._planner_lock = threading.Lock()
        self._local = None if local is None else LocalDetector(local)
        self._threads = ThreadPoolExecutor(2, "veilcam-tiles")
        self._index = 0
        self._last: Detections | None = None
        self._look: asyncio.Task[TileOutcome] | None = None

    async def start(self, *, wait_s: float = 5.0) -> None:
        """Connect to the workers; returns when each was tried, at the latest after ``wait_s``."""
        await self.workers.start(wait_s=wait_s)

    async def close(self) -> None:
        """Give the threads back. The workers stay open for other pools."""
        await self._end_look()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._local is not None:
            self._local.close()

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
            UsageError: not a protected frame.
        """
        self._index = self._index + 1 if frame_index is None else frame_index
        views = self.workers.views()
        if self._local is not None:
            self._local.names = self.workers.class_names
            if self.options.policy.look == "local" or not views:
                views.append(self._local.view())
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._prepare, frame, self._index, views)

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
        earlier, look = self._look, None
        tiles = asyncio.create_task(dispatch.tiles(prepared.cuts))
        if prepared.look is not None:
            await asyncio.sleep(0)  # the tiles go first
            await self._end_look()  # one at a time
            look = self._look = asyncio.create_task(dispatch.look(prepared.look))
        outcomes = await tiles
        if look is not None and prepared.look is not None:
            if not outcomes:
                await asyncio.wait([look])
            outcomes.append(look.result() if look.done() else dispatch.pending(prepared.look))
            self._look = None if look.done() else look
        ended = await self._ended_look(earlier)
        loop = asyncio.get_running_loop()
        merged = await loop.run_in_executor(self._threads, self._merge, prepared, outcomes, ended)
        infer_s = time.monotonic() - began_s
        return PoolResult(
            frame_index=prepared.frame_index,
            frame_wh=prepared.frame_wh,
            detections=merged,
            outcomes=tuple(outcomes),
            earlier_look=ended,
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

    async def _ended_look(self, earlier: asyncio.Task[TileOutcome] | None) -> TileOutcome | None:
        """The outcome of a look of an earlier frame, once."""
        if earlier is None or not earlier.done() or earlier.cancelled():
            return None
        if self._look is earlier:
            self._look = None
        return earlier.result()

    async def _end_look(self) -> None:
        look, self._look = self._look, None
        if look is not None and not look.done():
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)

    def _prepare(self, frame: ProtectedFrame, frame_index: int, views: list[WorkerView]) -> Prepared:
        began_s = time.monotonic()
        frame_wh = (frame.width, frame.height)
        with self._planner_lock:
            if isinstance(self._planner, Planner):
                self._planner.see(frame.luma_hw)
            plan = self._planner.plan(frame_index, frame_wh, views)
        planned_s = time.monotonic()
        cuts = [self._cut(frame, tile) for tile in plan.tiles]
        look = None if plan.look is None else self._cut(frame, plan.look)
        encode_s = time.monotonic() - planned_s
        return Prepared(frame_index, frame_wh, plan, cuts, look, planned_s - began_s, encode_s)

    def _cut(self, frame: ProtectedFrame, tile: Tile) -> CutTile:
        """The tile, coded already where its owner takes JPEG."""
        piece = cut(frame, tile)
        worker = self.workers.find(tile.worker)
        if worker is not None and worker.address.kind == "veilcam":
            coded = piece.jpeg(self.options.jpeg_quality)
            if isinstance(self._planner, Planner):
                self._planner.learn_bytes(piece.pixels, len(coded))
        return piece

    def _merge(
        self, prepared: Prepared, outcomes: list[TileOutcome], ended: TileOutcome | None
    ) -> Detections:
        parts = [(outcome.tile, outcome.found) for outcome in outcomes if outcome.found is not None]
        names = self.workers.class_names or (self._local.class_names if self._local else ())
        config = DetectorConfig(min_score=self.options.min_score)
        merged = merge(prepared.frame_wh, parts, config, skipped=prepared.plan.skipped, names=names)
        if parts or not outcomes:
            with self._planner_lock:
                known = self._with_held(merged, outcomes)
                if ended is not None and ended.found is not None:
                    known = with_new(known, merge(prepared.frame_wh, [(ended.tile, ended.found)], config))
                self._planner.observe(prepared.frame_index, known)
                self._last = merged
        return merged

    def _with_held(self, merged: Detections, outcomes: list[TileOutcome]) -> Detections:
        """For the planner: what was in a tile that nobody answered is believed to be there still."""
        missing = [outcome.tile for outcome in outcomes if outcome.kind == "missing" and not outcome.is_look]
        last = self._last
        if not missing or last is None or last.names != merged.names or not len(last):
            return merged
        centres = (last.boxes_xyxy[:, :2] + last.boxes_xyxy[:, 2:]) / 2
        held = np.zeros(len(last), bool)
        for tile in missing:
            low, high = np.array(tile.xyxy[:2]), np.array(tile.xyxy[2:])
            held |= ((centres >= low) & (centres < high)).all(1)
        return Detections.concatenate([merged, last[held]])


def with_new(known: Detections, looked: Detections) -> Detections:
    """``known`` and what a look at an earlier frame found where nothing is known: for planning only.

    The next frame has a tile there; what is shown to anybody comes from that tile, not from the old look.
    """
    if not len(looked) or looked.names != known.names:
        return known
    if not len(known):
        return looked
    low = np.maximum(looked.boxes_xyxy[:, None, :2], known.boxes_xyxy[None, :, :2])
    high = np.minimum(looked.boxes_xyxy[:, None, 2:], known.boxes_xyxy[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(2)
    sizes = [(part.boxes_xyxy[:, 2:] - part.boxes_xyxy[:, :2]).prod(1) for part in (looked, known)]
    smaller = np.minimum(sizes[0][:, None], sizes[1][None])
    is_new = (shared < KNOWN_SHARE * smaller).all(1)
    return Detections.concatenate([known, looked[np.flatnonzero(is_new)]])
