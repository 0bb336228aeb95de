"""The three ways that are compared, over the same connections and with the same code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from analytics.detections import Detections
from analytics.elf.types import FramePlan, Tile, WorkerView
from analytics.pool import EdgeWorkers, Pool, PoolOptions, PoolResult, WorkerAddress
from base.frames import ProtectedFrame

WAYS = ("one", "grid", "elf")
REFERENCE_MIN_SCORE = 0.1  # what the whole frame shows weakly counts neither way


class OnePlanner:
    """The whole frame to the first worker."""

    def plan(self, frame_index: int, frame_wh: tuple[int, int], workers: list[WorkerView]) -> FramePlan:
        """See FramePlanner."""
        return FramePlan((Tile(0, 0, *frame_wh, workers[0].name),), covers_all=True)

    def observe(self, frame_index: int, merged: Detections) -> None:
        """Nothing is learned."""


class MovedPlanner(OnePlanner):
    """The whole frame but for 8 columns and rows: how much the detector itself depends on the place."""

    def plan(self, frame_index: int, frame_wh: tuple[int, int], workers: list[WorkerView]) -> FramePlan:
        """See FramePlanner."""
        width, height = frame_wh
        return FramePlan((Tile(8, 8, width - 8, height - 8, workers[0].name),), covers_all=True)


class GridPlanner:
    """Equal tiles that cover the frame, one per worker, in the most square arrangement."""

    def plan(self, frame_index: int, frame_wh: tuple[int, int], workers: list[WorkerView]) -> FramePlan:
        """See FramePlanner."""
        columns = next(n for n in range(int(len(workers) ** 0.5), 0, -1) if len(workers) % n == 0)
        columns, rows = len(workers) // columns, columns
        x = [round(frame_wh[0] * n / columns) for n in range(columns + 1)]
        y = [round(frame_wh[1] * n / rows) for n in range(rows + 1)]
        places = [(column, row) for row in range(rows) for column in range(columns)]
        tiles = tuple(
            Tile(x[column], y[row], x[column + 1] - x[column], y[row + 1] - y[row], worker.name)
            for (column, row), worker in zip(places, workers, strict=True)
        )
        return FramePlan(tiles, covers_all=True)

    def observe(self, frame_index: int, merged: Detections) -> None:
        """Nothing is learned."""


@dataclass(slots=True)
class Way:
    """One way and what it gave."""

    name: str
    pool: Pool
    results: list[PoolResult] = field(default_factory=list)
    with_look_s: list[float] = field(default_factory=list)  # latency until the look, too, had ended

    async def run(self, frame: ProtectedFrame, index: int) -> PoolResult:
        """One frame; returns when nothing of it is on its way any more."""
        began_s = time.monotonic()
        result = await self.pool.detect(frame, index)
        await self.pool.settle()
        self.results.append(result)
        self.with_look_s.append(max(result.latency_s, time.monotonic() - began_s))
        return result


class Ways:
    """The three ways on the same workers. Start it, run frames, close it."""

    def __init__(
        self, addresses: Sequence[WorkerAddress], options: PoolOptions, names: Sequence[str] = WAYS
    ) -> None:
        self._first = EdgeWorkers(addresses[:1])
        self._all = EdgeWorkers(addresses)
        weak = replace(options, min_score=min(REFERENCE_MIN_SCORE, options.min_score))
        made = {
            "one": lambda: Pool(self._first, weak, planner=OnePlanner()),
            "moved": lambda: Pool(self._first, options, planner=MovedPlanner()),
            "grid": lambda: Pool(self._all, options, planner=GridPlanner()),
            "elf": lambda: Pool(self._all, options),
        }
        self.ways = [Way(name, made[name]()) for name in names]

    @property
    def workers(self) -> EdgeWorkers:
        """All of them."""
        return self._all

    async def start(self) -> None:
        """Connect to every worker; raises RuntimeError if one cannot be used."""
        await self._first.start(wait_s=60)
        await self._all.start(wait_s=60)
        missing = [state for state in self._all.states() if state.state != "closed"]
        if missing:
            message = "; ".join(f"{state.name}: {state.error}" for state in missing)
            raise RuntimeError(message)

    async def run(self, frames: Sequence[ProtectedFrame]) -> None:
        """Every frame by every way, one after the other; who begins changes from frame to frame."""
        for index, frame in enumerate(frames):
            turn = index % len(self.ways)
            for way in self.ways[turn:] + self.ways[:turn]:
                await way.run(frame, index)
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        """Give everything back."""
        for way in self.ways:
            await way.pool.close()
        await self._first.close()
        await self._all.close()
