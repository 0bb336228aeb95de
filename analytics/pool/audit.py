"""Catching plausible lies: now and then a second worker gets a tile, too, and where two disagree a third.

A worker that reports a person less, or one that is not there, gives answers that look like any other's.
Workers with the same detector must find the same in the same JPEG, up to rounding; who stands alone against
two has lied. Two alone cannot tell who of them it was: that is logged and nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping

import numpy as np

from analytics.detections import Detections
from analytics.elf.types import Policy
from analytics.pool.options import PoolOptions
from analytics.pool.result import TileOutcome
from analytics.pool.tiles import CutTile
from analytics.pool.transport import Request
from analytics.pool.worker import EdgeWorker
from analytics.pool.workers import EdgeWorkers
from base.errors import FormatError, PeerError

logger = logging.getLogger(__name__)

STRONG = 0.5  # a box of this score that the other lacks is a disagreement, a weaker one is chance
MIN_IOU = 0.5
MIN_SHARED = 0.5  # of all strong boxes, that both have


class Auditor:
    """One camera's audits; at most one runs at a time."""

    def __init__(self, workers: EdgeWorkers, options: PoolOptions, *, seed: int | None = None) -> None:
        self._workers = workers
        self._options = options
        self._chance = random.Random(seed)
        self._running: asyncio.Task[None] | None = None
        self.num_audits = self.num_lies = 0

    def consider(
        self,
        cuts: list[CutTile],
        outcomes: list[TileOutcome],
        seen_share: Mapping[str, float],
        frame_wh: tuple[int, int],
    ) -> None:
        """With a chance of one in ``audit_every``, check one of the frame's answers in the background.

        Args:
            cuts: the frame's tiles.
            outcomes: theirs, in the same order; more may follow.
            seen_share: by worker, what it saw of this frame already: policy binds audits, too.
            frame_wh: width and height of the frame in pixels.
        """
        every = self._options.audit_every
        if not every or self._chance.random() * every >= 1 or not self._is_free():
            return
        answered = [
            (cut, outcome.worker, outcome.found)
            for cut, outcome in zip(cuts, outcomes, strict=False)
            if outcome.found is not None and self._workers.find(outcome.worker) is not None
        ]
        if not answered:
            return
        cut, name, found = self._chance.choice(answered)
        share = cut.tile.area / (frame_wh[0] * frame_wh[1])
        others = self._others(name, share, seen_share)
        worker = self._workers.find(name)
        if others and worker is not None and found is not None:
            self._running = asyncio.create_task(self._audit(cut, worker, found, others))

    async def close(self) -> None:
        """End a running audit."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def settle(self) -> None:
        """Wait for a running audit."""
        if self._running is not None:
            await asyncio.wait([self._running])

    def _is_free(self) -> bool:
        return self._running is None or self._running.done()

    def _others(self, name: str, share: float, seen_share: Mapping[str, float]) -> list[EdgeWorker]:
        """Workers with the same detector that may see the tile as well, in random order."""
        asked = self._workers.find(name)
        if asked is None or asked.served is None:
            return []
        others = [
            worker
            for worker in self._workers.available()
            if worker is not asked
            and worker.served == asked.served
            and worker.address.kind == asked.address.kind
            and _may_see(worker, share + seen_share.get(worker.name, 0.0), self._options.policy)
        ]
        self._chance.shuffle(others)
        return others

    async def _audit(
        self, cut: CutTile, worker: EdgeWorker, found: Detections, others: list[EdgeWorker]
    ) -> None:
        self.num_audits += 1
        second = await self._ask(others[0], cut)
        if second is None or agree(found, second):
            return
        third = await self._ask(others[1], cut) if len(others) > 1 else None
        if third is None:
            logger.warning("workers %s and %s disagree about a tile", worker.name, others[0].name)
            return
        liars = [
            one
            for one, said in ((worker, found), (others[0], second), (others[1], third))
            if sum(agree(said, other) for other in (found, second, third)) == 1
        ]
        if len(liars) == 1:  # each agrees with itself; three who all differ prove nothing
            self.num_lies += 1
            liars[0].catch("its answer about a tile is not what two others find in it")

    async def _ask(self, worker: EdgeWorker, cut: CutTile) -> Detections | None:
        options = self._options
        request = Request(cut, options.jpeg_quality, options.deadline_s, options.camera, options.min_score)
        try:
            async with asyncio.timeout(options.deadline_s):
                return (await worker.infer(request)).found
        except (PeerError, FormatError, TimeoutError):
            return None


def agree(one: Detections, other: Detections) -> bool:
    """At least half of all strong boxes of either are in both, whatever the other's score for them is."""
    missing = total = 0
    for first, second in ((one, other), (other, one)):
        for row in np.flatnonzero(first.scores >= STRONG):
            same = second[np.flatnonzero(second.class_ids == first.class_ids[row])]
            total += 1
            missing += not _is_there(first.boxes_xyxy[row], same)
    return missing <= (1 - MIN_SHARED) * total


def _is_there(box: np.ndarray[tuple[int, ...], np.dtype[np.float32]], found: Detections) -> bool:
    if not len(found):
        return False
    boxes = found.boxes_xyxy.astype(np.float64)
    sides = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    shared = np.clip(sides, 0, None).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1) + float((box[2:] - box[:2]).prod())
    return bool((shared >= MIN_IOU * np.maximum(areas - shared, 1e-9)).any())


def _may_see(worker: EdgeWorker, share: float, policy: Policy) -> bool:
    allowed = policy.share_of(worker.view())
    return allowed >= 1 or share <= allowed + 1e-9
