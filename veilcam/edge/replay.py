"""A clip through the pool, frame by frame, with everything that is needed to show what happened."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from analytics.annotate import AnnotatedVideo
from analytics.interface import Detector
from analytics.pool import EdgeWorkers, Pool, PoolOptions, WorkerAddress, WorkerState
from analytics.pool.tiles import frame_bgr
from base.errors import PeerError
from veilcam.edge.clip import count_frames, protected_frames
from veilcam.edge.draw import draw_tiles
from veilcam.edge.timeline import Timed

START_S = 30.0


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to replay, and how.

    Attributes:
        clip: any video; protected on the way if it is not.
        video: where the annotated video goes; None for none.
        pool: deadline, quality, policy.
        limit: at most so many frames.
    """

    clip: Path
    video: Path | None
    pool: PoolOptions
    limit: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What came of it."""

    frames: list[Timed]
    workers: tuple[WorkerState, ...]

    def latency_ms(self, share: float) -> float:
        """The frames' latency at ``share`` per cent; 50 is the median."""
        return 1000 * percentile([frame.result.latency_s for frame in self.frames] or [0.0], share)

    def labels(self) -> Counter[str]:
        """How often each class was found."""
        return Counter(label for frame in self.frames for label in frame.result.detections.labels)

    def summary(self) -> dict[str, object]:
        """Figures for people and programs; times in milliseconds."""
        results = [frame.result for frame in self.frames]
        kinds = Counter(outcome.kind for result in results for outcome in result.outcomes)
        return {
            "frames": len(results),
            "detections": sum(len(result.detections) for result in results),
            "labels": dict(self.labels()),
            "latency_ms": {
                "median": round(self.latency_ms(50), 1),
                "p95": round(self.latency_ms(95), 1),
                "most": round(self.latency_ms(100), 1),
            },
            "plan_ms": round(1000 * statistics.median([result.plan_s for result in results] or [0]), 2),
            "encode_ms": round(1000 * statistics.median([result.encode_s for result in results] or [0]), 2),
            "sent_bytes": sum(result.sent_bytes for result in results),
            "tiles": dict(kinds),
            "late": sum(result.late for result in results),
            "failed": sum(result.failed for result in results),
            "workers": [asdict(state) for state in self.workers],
        }


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that ``share`` per cent are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered), max(1, math.ceil(len(ordered) * share / 100))) - 1]


async def replay(
    options: ReplayOptions,
    addresses: Sequence[WorkerAddress],
    *,
    local: Detector | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
    stop: asyncio.Event | None = None,
) -> Replay:
    """Every frame of the clip, one after the other: none is skipped, however slow the workers are.

    Raises:
        PeerError: no worker can be used.
        MediaError: the clip cannot be decoded, or the video not written.
    """
    workers = EdgeWorkers(addresses)
    pool = Pool(workers, options.pool, local=local)
    video = None if options.video is None else AnnotatedVideo(options.video)
    try:
        await pool.start(wait_s=START_S)
        if not workers.available() and local is None:
            reasons = "; ".join(f"{state.name}: {state.error}" for state in workers.states())
            message = f"no worker can be used: {reasons}"
            raise PeerError(message)
        if video is None:
            frames = await _run(options, pool, None, on_progress, stop)
        else:
            with video:
                frames = await _run(options, pool, video, on_progress, stop)
        return Replay(frames, pool.states())
    finally:
        await pool.close()
        await workers.close()


async def _run(
    options: ReplayOptions,
    pool: Pool,
    video: AnnotatedVideo | None,
    on_progress: Callable[[float], None],
    stop: asyncio.Event | None,
) -> list[Timed]:
    names = [worker.name for worker in pool.workers.all]
    total = count_frames(options.clip) or 0
    total = min(total, options.limit or total)
    frames: list[Timed] = []
    clip = protected_frames(options.clip, limit=options.limit)
    clock_s, number = 0.0, 0  # decoding, protecting and drawing are no part of the time line
    while (item := await asyncio.to_thread(next, clip, None)) is not None:
        frame, time_s = item
        result = await pool.detect(frame, number)
        frames.append(Timed(clock_s + result.plan_s + result.encode_s, result))
        clock_s += result.latency_s
        if video is not None:
            drawn = draw_tiles(frame_bgr(frame), result, names)
            await asyncio.to_thread(video.write, drawn, result.detections, time_s)
        number += 1
        on_progress(number / total if total else 0.0)
        if stop is not None and stop.is_set():
            break
    await pool.settle()
    return frames
