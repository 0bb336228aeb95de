"""Getting one frame's tiles answered in time: by their owners, by others, by the camera itself, or not.

A tile whose owner breaks is sent to another worker at once; one whose owner is late, as soon as waiting is
less promising than asking again. What is used is the first good answer; the others are cancelled. At the
deadline a tile goes to the camera's own detector if that is free and can be in time, and is missing
otherwise. Nothing here waits beyond ``LOCAL_GRACE`` times the deadline, whatever anybody does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from analytics.elf.types import LOCAL
from analytics.pool.answer import Answer
from analytics.pool.local import LocalDetector
from analytics.pool.options import PoolOptions
from analytics.pool.result import OutcomeKind, TileOutcome
from analytics.pool.tiles import CutTile
from analytics.pool.transport import Request
from analytics.pool.worker import EdgeWorker
from analytics.pool.workers import EdgeWorkers
from base.errors import FormatError, PeerError

MAX_ATTEMPTS = 3
LOCAL_GRACE = 1.8  # times the deadline: the bar is 2, the rest is for merging
MIN_REMAINING_S = 0.005


@dataclass(slots=True, eq=False)
class _Job:
    """One tile and everything that was tried for it."""

    cut: CutTile
    is_look: bool
    sent_bytes: int = 0
    late: int = 0
    failed: int = 0
    tried: set[str] = field(default_factory=set)
    running: dict[asyncio.Task[Answer], EdgeWorker] = field(default_factory=dict)

    def outcome(self, kind: OutcomeKind, name: str, answer: Answer | None, latency_s: float) -> TileOutcome:
        return TileOutcome(
            tile=self.cut.tile,
            is_look=self.is_look,
            kind=kind,
            worker=name,
            latency_s=latency_s,
            sent_bytes=self.sent_bytes,
            busy_s=None if answer is None else answer.busy_s,
            late=self.late,
            failed=self.failed,
            found=None if answer is None else answer.found,
        )


class FrameDispatch:
    """One frame on its way; its deadline runs from here on. Use once."""

    def __init__(
        self,
        workers: EdgeWorkers,
        local: LocalDetector | None,
        options: PoolOptions,
        frame_wh: tuple[int, int],
        expected_s: Mapping[str, float],
    ) -> None:
        """Begin a frame.

        Args:
            workers: who may be asked.
            local: the camera's own detector, if there is one.
            options: deadline, policy.
            frame_wh: width and height of the frame in pixels.
            expected_s: by worker, when its last tile is planned to be answered.
        """
        self._expected_s = expected_s
        self._workers = workers
        self._local = local
        self._options = options
        self._frame_area = frame_wh[0] * frame_wh[1]
        self._seen: dict[str, int] = {}
        self._tiles: list[tuple[str, asyncio.Task[TileOutcome]]] = []  # with their planned workers
        self._began_s = time.monotonic()

    @property
    def seen_share(self) -> dict[str, float]:
        """The part of the frame that was sent to each worker."""
        return {name: min(1.0, area / self._frame_area) for name, area in self._seen.items()}

    async def tiles(self, cuts: list[CutTile]) -> list[TileOutcome]:
        """One outcome per tile in their order."""
        self._tiles = [
            (cut.tile.worker, asyncio.create_task(self._answer(_Job(cut, is_look=False)))) for cut in cuts
        ]
        return list(await asyncio.gather(*(task for _, task in self._tiles)))

    async def look(self, cut: CutTile) -> TileOutcome:
        """The outcome of the look; it may take longer than the tiles and is not waited for with them.

        It is sent when its worker's tiles are answered: beside them it would take that worker's time from
        them, as much as several tiles cost.
        """
        worker = self._workers.find(cut.tile.worker)
        before = [task for name, task in self._tiles if name == cut.tile.worker]
        if worker is not None and before:
            worker.expect_look(self._request(_Job(cut, is_look=True)))
            await asyncio.wait(before)
        return await self._answer(_Job(cut, is_look=True))

    def pending(self, cut: CutTile) -> TileOutcome:
        """What can be said of a look that is still on its way."""
        worker = self._workers.find(cut.tile.worker)
        outcome = _Job(cut, is_look=True).outcome("pending", cut.tile.worker, None, self._elapsed_s())
        request = Request(cut, self._options.jpeg_quality, 0.0, self._options.camera, 0.0)
        return replace(outcome, sent_bytes=0 if worker is None else worker.body_bytes(request))

    async def _answer(self, job: _Job) -> TileOutcome:
        try:
            won = await self._remote(job)
        finally:
            for task in job.running:
                task.cancel()
            if job.running:
                await asyncio.gather(*job.running, return_exceptions=True)
        if won is not None:
            name, remote = won
            kind: OutcomeKind = "answered" if name == job.cut.tile.worker else "moved"
            return job.outcome(kind, name, remote, self._elapsed_s())
        local = await self._locally(job)
        if local is not None:
            return job.outcome("local", LOCAL, local, self._elapsed_s())
        return job.outcome("missing", "", None, self._elapsed_s())

    async def _remote(self, job: _Job) -> tuple[str, Answer] | None:
        """The first good answer of a worker; None when there will be none in time."""
        worker = self._owner(job)
        while True:
            if worker is not None:
                self._send(worker, job)
            if not job.running:
                return None
            won = await self._wait(job)
            if won is not None:
                return won
            if self._remaining_s(job) <= MIN_REMAINING_S:
                job.late += len(job.running)
                return None
            worker = self._next(job, must=not job.running)

    def _owner(self, job: _Job) -> EdgeWorker | None:
        """The planned worker, or another one if that has gone since."""
        if job.cut.tile.worker == LOCAL:
            return None
        worker = self._workers.find(job.cut.tile.worker)
        if worker is not None and worker.available and self._may_see(worker, job):
            return worker
        return self._next(job, must=True)

    def _send(self, worker: EdgeWorker, job: _Job) -> None:
        request = self._request(job)
        job.tried.add(worker.name)
        job.sent_bytes += worker.body_bytes(request)
        self._seen[worker.name] = self._seen.get(worker.name, 0) + job.cut.tile.area
        job.running[asyncio.create_task(worker.infer(request))] = worker

    async def _wait(self, job: _Job) -> tuple[str, Answer] | None:
        patience_s = self._patience_s(job)
        done, _ = await asyncio.wait(job.running, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        won: tuple[str, Answer] | None = None
        for task in done:
            name = job.running.pop(task).name
            try:
                won = won or (name, task.result())
            except (PeerError, FormatError):
                job.failed += 1
        if won is not None:
            job.late += len(job.running)
        return won

    def _patience_s(self, job: _Job) -> float:
        """Until when it is worth to wait without asking anybody else."""
        remaining_s = max(self._remaining_s(job), 0.0)
        if len(job.running) > 1:
            return remaining_s
        worker = next(iter(job.running.values()))
        planned_s = self._expected_s.get(worker.name, 0.0) - self._elapsed_s()
        return min(remaining_s, worker.patience_s(self._request(job), planned_s))

    def _next(self, job: _Job, *, must: bool) -> EdgeWorker | None:
        """The worker that is likely to answer first, in time; an idle one unless there ``must`` be one."""
        if len(job.tried) >= MAX_ATTEMPTS:
            return None
        request = self._request(job)
        fit = [
            (worker.predicted_s(request), place, worker)
            for place, worker in enumerate(self._workers.available())
            if worker.name not in job.tried
            and self._may_see(worker, job)
            and (must or worker.outstanding == 0)
        ]
        best = min(fit, default=None)
        return best[2] if best is not None and best[0] <= self._remaining_s(job) else None

    def _may_see(self, worker: EdgeWorker, job: _Job) -> bool:
        """The policy, for what was planned and what is moved alike."""
        policy, view = self._options.policy, worker.view()
        if job.is_look and (policy.look == "local" or (policy.look == "trusted" and not view.trusted)):
            return False
        share = policy.share_of(view)
        if share >= 1:
            return True
        area = self._seen.get(worker.name, 0) + job.cut.tile.area
        return area <= share * self._frame_area + 1e-6

    async def _locally(self, job: _Job) -> Answer | None:
        if self._local is None:
            return None
        left_s = LOCAL_GRACE * self._options.deadline_s - self._elapsed_s()
        return await self._local.infer(job.cut, left_s)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _remaining_s(self, job: _Job) -> float:
        """Until a worker's answer is too late; earlier where the camera's detector needs the rest."""
        left_s = self._options.deadline_s - self._elapsed_s()
        if self._local is None:
            return left_s
        return left_s - max(0.0, self._local.predicted_s(job.cut.pixels) - 0.5 * self._options.deadline_s)

    def _request(self, job: _Job) -> Request:
        options = self._options
        remaining_s = max(options.deadline_s - self._elapsed_s(), MIN_REMAINING_S)
        return Request(
            job.cut, options.jpeg_quality, remaining_s, options.camera, options.min_score, job.is_look
        )
