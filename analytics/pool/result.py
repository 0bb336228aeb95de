"""What the pool tells: about a frame, and about its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from analytics.detections import Detections
from analytics.elf.types import FramePlan, Tile
from analytics.pool.breaker import BreakerState

OutcomeKind = Literal["answered", "moved", "local", "missing", "pending"]


@dataclass(frozen=True, slots=True, eq=False)
class TileOutcome:
    """What became of one tile.

    Attributes:
        tile: as planned.
        is_look: it is the low-resolution look at the whole frame.
        kind: answered by its owner; by another worker; by the camera's own detector; by nobody in time; or
            (a look) still on its way when the tiles were answered.
        worker: who answered, or is to; "" where nobody did.
        latency_s: from sending to the answer that was used, or to giving up.
        sent_bytes: uploaded for it, all attempts together.
        busy_s: work there, as the worker says; None where it does not say.
        late: attempts without an answer in time.
        failed: attempts that were refused, broke, or gave an answer that cannot be true.
        found: in pixels of the picture sent; None where nobody answered.
    """

    tile: Tile
    is_look: bool
    kind: OutcomeKind
    worker: str
    latency_s: float
    sent_bytes: int
    busy_s: float | None
    late: int
    failed: int
    found: Detections | None


@dataclass(frozen=True, slots=True, eq=False)
class PoolResult:
    """One frame's detections and how they came about.

    Attributes:
        frame_index, frame_wh: which frame, its width and height in pixels.
        detections: merged, in pixels of the frame.
        outcomes: one per tile, the look last.
        earlier_look: the end of a look that was pending in an earlier frame; None in most frames.
        plan: what was planned.
        latency_s: from taking the frame to the merged result, without waiting for an earlier frame.
        plan_s, encode_s, infer_s: planning; cutting and coding; sending until merged.
        seen_share: by worker, the part of the frame's area that was sent to it.
    """

    frame_index: int
    frame_wh: tuple[int, int]
    detections: Detections
    outcomes: tuple[TileOutcome, ...]
    earlier_look: TileOutcome | None
    plan: FramePlan
    latency_s: float
    plan_s: float
    encode_s: float
    infer_s: float
    seen_share: Mapping[str, float]

    @property
    def sent_bytes(self) -> int:
        """Uploaded for this frame."""
        return sum(outcome.sent_bytes for outcome in self.outcomes)

    @property
    def late(self) -> int:
        """Attempts without an answer in time."""
        return sum(outcome.late for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        """Attempts that broke or lied."""
        return sum(outcome.failed for outcome in self.outcomes)

    @property
    def local(self) -> int:
        """Tiles that the camera's own detector answered, without looks."""
        return sum(outcome.kind == "local" and not outcome.is_look for outcome in self.outcomes)

    @property
    def is_blind(self) -> bool:
        """Tiles were sent and none was answered: no detections does not mean that nothing is there."""
        tiles = [outcome for outcome in self.outcomes if not outcome.is_look]
        return bool(tiles) and all(outcome.found is None for outcome in tiles)

    @property
    def missing(self) -> int:
        """Tiles, without looks, that nobody answered: what is in them is not known in this frame."""
        return sum(outcome.kind == "missing" and not outcome.is_look for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One worker at one moment, for pages, metrics and logs.

    Attributes:
        name, url: of the worker; the URL holds no secret.
        state: closed (in use), open (left alone), half-open (about to be tried).
        model: what it serves; "" while unknown.
        error: why it is left alone; "" while all is well.
        load: busy share of the last seconds, as far as this process gives it work; 0 to 1.
        latency_s: of its answers, recent mean; None before the first.
        speed_pixels_per_s, link_bytes_per_s, delay_s, fixed_s: what planning believes.
        answered, late, failed, lied: requests so far by how they ended.
        sent_bytes: uploaded so far.
        max_share, trusted: from the settings.
    """

    name: str
    url: str
    state: BreakerState
    model: str
    error: str
    load: float
    latency_s: float | None
    speed_pixels_per_s: float
    link_bytes_per_s: float
    delay_s: float
    fixed_s: float
    answered: int
    late: int
    failed: int
    lied: int
    sent_bytes: int
    max_share: float
    trusted: bool
