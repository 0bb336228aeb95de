"""What a running pipeline tells about itself: counters and stage times, as values."""

from __future__ import annotations

import bisect
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["capture", "protect", "seal_encode", "hide", "encode", "seal", "send"]
STAGES: tuple[Stage, ...] = ("capture", "protect", "seal_encode", "hide", "encode", "seal", "send")

SourceState = Literal["opening", "running", "reconnecting", "ended", "failed"]
PipelineState = Literal["new", "running", "stopping", "ended", "failed"]

# Upper bounds in seconds; the last bucket is open. Prometheus' "le" buckets.
BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Busy seconds of one stage: total, count, and how many fell into each of ``BUCKETS_S`` (plus one)."""

    count: int
    total_s: float
    max_s: float
    bucket_counts: tuple[int, ...]

    @property
    def mean_s(self) -> float:
        """Average busy seconds per frame; 0 before the first."""
        return self.total_s / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class PipelineStats:
    """Snapshot of one pipeline."""

    state: PipelineState
    source_state: SourceState
    reconnects: int
    frames_in: int
    frames_out: int
    dropped: dict[str, int]  # reason -> frames
    key_frames: int
    key_frame_requests: int
    segments: int
    fps: float  # published frames per second over the last few seconds of wall clock
    bitrate_bps: float  # all published bytes (video + SEI) over the same window
    published_bytes: int
    sealed_bytes: int  # bytes of the camera's coded original that were sealed
    epoch: str  # first 8 hex digits of the epoch id; "" before the first unit
    source_age_s: float | None  # seconds since the last captured frame; None before the first
    uptime_s: float
    width: int  # of the protected picture; 0 before the first
    height: int
    sealed_mode: str
    pixels: str  # off, low or high
    protector: str  # back end name
    error: str  # "" while all is well
    stages: dict[Stage, StageTimes]


@dataclass(slots=True)
class _Histogram:
    count: int = 0
    total_s: float = 0.0
    max_s: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        self.max_s = max(self.max_s, seconds)
        self.buckets[bisect.bisect_left(BUCKETS_S, seconds)] += 1

    def snapshot(self) -> StageTimes:
        return StageTimes(self.count, self.total_s, self.max_s, tuple(self.buckets))


class Meter:
    """Thread-safe counters behind ``PipelineStats``."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._stages: dict[Stage, _Histogram] = {stage: _Histogram() for stage in STAGES}
        self._recent: deque[tuple[float, int]] = deque()
        self._window_s = window_s
        self._started_s = time.monotonic()
        self._captured_s: float | None = None

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Add the block's wall time to a stage."""
        start_s = time.perf_counter()
        try:
            yield
        finally:
            self.add_time(stage, time.perf_counter() - start_s)

    def add_time(self, stage: Stage, seconds: float) -> None:
        """Add ``seconds`` of work to a stage."""
        with self._lock:
            self._stages[stage].add(seconds)

    def captured(self) -> None:
        """A frame came from the source."""
        with self._lock:
            self._counts["in"] += 1
            self._captured_s = time.monotonic()

    def count(self, name: str, by: int = 1) -> None:
        """Add to a named counter."""
        with self._lock:
            self._counts[name] += by

    def published(self, size_bytes: int) -> None:
        """A unit went to the sinks."""
        now_s = time.monotonic()
        with self._lock:
            self._counts["out"] += 1
            self._counts["bytes"] += size_bytes
            self._recent.append((now_s, size_bytes))
            while self._recent[0][0] < now_s - self._window_s:
                self._recent.popleft()

    def value(self, name: str) -> int:
        """A named counter."""
        with self._lock:
            return self._counts[name]

    def rates(self) -> tuple[float, float]:
        """Frames per second and bits per second over the window."""
        now_s = time.monotonic()
        with self._lock:
            recent = [(t, n) for t, n in self._recent if t >= now_s - self._window_s]
        span_s = min(self._window_s, now_s - self._started_s)
        if not recent or span_s <= 0:
            return 0.0, 0.0
        return len(recent) / span_s, 8 * sum(n for _, n in recent) / span_s

    def source_age_s(self) -> float | None:
        """Seconds since the last captured frame."""
        return None if self._captured_s is None else time.monotonic() - self._captured_s

    def uptime_s(self) -> float:
        """Seconds since the meter was made."""
        return time.monotonic() - self._started_s

    def stage_times(self) -> dict[Stage, StageTimes]:
        """Stage times at this moment."""
        with self._lock:
            return {stage: histogram.snapshot() for stage, histogram in self._stages.items()}
