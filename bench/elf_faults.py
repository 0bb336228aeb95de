"""What happens to a stream when one of its workers dies, freezes or becomes slow."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analytics.pool import EdgeWorkers, Pool, PoolOptions, PoolResult, WorkerAddress
from base.frames import ProtectedFrame

Act = Callable[[], None]
CALM = 5  # frames in a row without trouble, after which the pool counts as rebalanced


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to one worker, and its end."""

    name: str
    begin: Act
    end: Act


@dataclass(frozen=True, slots=True)
class FaultReport:
    """What became of the stream.

    Attributes:
        name: of the fault.
        frames: in all.
        deadline_s: per frame.
        calm_s: median latency before it.
        worst_s: longest latency of any frame from then on.
        rebalanced_s: from the fault until frames pass without a late, failed or missing tile again.
        missing: tiles that nobody answered.
    """

    name: str
    frames: int
    deadline_s: float
    calm_s: float
    worst_s: float
    rebalanced_s: float
    missing: int

    @property
    def is_good(self) -> bool:
        """No frame later than twice its deadline, and rebalanced within 2 s."""
        return self.worst_s <= 2 * self.deadline_s and self.rebalanced_s <= 2.0


def kill(pid: int) -> Act:
    """``kill -9``."""
    return lambda: os.kill(pid, signal.SIGKILL)


def freeze(pid: int) -> Fault:
    """SIGSTOP, and SIGCONT at the end."""
    return Fault("SIGSTOP", lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGCONT))


async def run_fault(
    fault: Fault,
    addresses: Sequence[WorkerAddress],
    options: PoolOptions,
    frames: Sequence[ProtectedFrame],
    *,
    interval_s: float,
) -> FaultReport:
    """Frames at a steady pace; the fault comes after a third of them."""
    workers = EdgeWorkers(addresses)
    pool = Pool(workers, options)
    at = len(frames) // 3
    times: list[tuple[float, PoolResult]] = []
    fault_s = 0.0
    try:
        await pool.start(wait_s=30)
        next_s = time.monotonic()
        for index, frame in enumerate(frames):
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
            next_s = max(next_s + interval_s, time.monotonic())
            if index == at:
                fault.begin()
                fault_s = time.monotonic()
            result = await pool.detect(frame, index)
            times.append((time.monotonic(), result))
    finally:
        fault.end()
        await pool.close()
        await workers.close()
    after = times[at:]
    return FaultReport(
        fault.name,
        len(times),
        options.deadline_s,
        statistics.median(result.latency_s for _, result in times[:at]),
        max(result.latency_s for _, result in after),
        _rebalanced_s(after, fault_s),
        sum(result.missing for _, result in after),
    )


def _rebalanced_s(after: Sequence[tuple[float, PoolResult]], fault_s: float) -> float:
    """When the first frame ended from which on enough frames in a row had no trouble."""
    calm = 0
    for index, (_, result) in enumerate(after):
        tiles = [outcome for outcome in result.outcomes if not outcome.is_look]
        troubled = any(outcome.late or outcome.failed or outcome.kind == "missing" for outcome in tiles)
        calm = 0 if troubled else calm + 1
        if calm == CALM:
            return after[index - CALM + 1][0] - fault_s
    return float("inf")
