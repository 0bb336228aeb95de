"""What the planner is told, and when: results in the order of their frames, looks with the frame they show.

A look takes longer than the tiles of its frame, whose boxes are given out without waiting for it. The planner
hears of such a frame only with its look, before the next frame is planned if the look has ended by then, and
without it when the next frame's boxes are there first; what the look shows then still counts for planning.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from analytics.detections import Detections
from analytics.elf.merge import merge
from analytics.elf.planner import Planner
from analytics.elf.types import FramePlan, Tile, WorkerView
from analytics.interface import DetectorConfig
from analytics.pool.result import TileOutcome
from base.frames import ProtectedFrame

KNOWN_SHARE = 0.3  # of the smaller of two boxes: above, they are taken for one object that has moved


class FramePlanner(Protocol):
    """What the pool needs of a planner: analytics.elf.Planner, or another way to cut frames."""

    def plan(self, frame_index: int, frame_wh: tuple[int, int], workers: list[WorkerView]) -> FramePlan:
        """The tiles of a frame."""

    def observe(self, frame_index: int, merged: Detections) -> None:
        """What was found in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """A frame whose tiles were answered, or not."""

    frame_index: int
    frame_wh: tuple[int, int]
    plan: FramePlan
    outcomes: list[TileOutcome]


class Memory:
    """A planner and what it has not been told yet. Safe for two threads."""

    def __init__(self, planner: FramePlanner, min_score: float) -> None:
        self._planner = planner
        self._config = DetectorConfig(min_score=min_score)
        self._lock = threading.Lock()
        self._waiting: Answered | None = None  # for its look
        self._late_look: TileOutcome | None = None  # of a frame that was told of without it
        self._last: Detections | None = None

    def plan(
        self,
        frame: ProtectedFrame,
        frame_index: int,
        workers: list[WorkerView],
        ended: TileOutcome | None,
        names: tuple[str, ...],
    ) -> FramePlan:
        """The tiles of a frame; ``ended`` is the look that has ended since the last call."""
        with self._lock:
            if self._waiting is None:
                self._late_look = ended or self._late_look
            elif ended is not None:
                self._tell_waiting(ended, names)
            if isinstance(self._planner, Planner):
                self._planner.see(frame.luma_hw)
            return self._planner.plan(frame_index, (frame.width, frame.height), workers)

    def learn_bytes(self, pixels: int, num_bytes: int) -> None:
        """So many pixels were coded into so many bytes."""
        if isinstance(self._planner, Planner):
            with self._lock:
                self._planner.learn_bytes(pixels, num_bytes)

    def take(self, frame: Answered, ended: TileOutcome | None, names: tuple[str, ...]) -> Detections:
        """The frame's merged boxes; ``ended`` is a look of an earlier frame that has ended since."""
        merged = self._merged(frame, frame.outcomes, names)
        with self._lock:
            self._learn_work(frame.outcomes)
            late = self._late_look if self._waiting is not None else ended or self._late_look
            self._tell_waiting(ended, names)
            self._late_look = None
            if any(outcome.kind == "pending" for outcome in frame.outcomes):
                self._waiting = frame
            elif frame.outcomes and all(outcome.found is None for outcome in frame.outcomes):
                return merged  # nothing is known of this frame
            else:
                known = self._with_held(merged, frame.outcomes)
                if late is not None and late.found is not None:
                    known = with_new(known, merge(frame.frame_wh, [(late.tile, late.found)], self._config))
                self._planner.observe(frame.frame_index, known)
            self._last = merged
        return merged

    def _learn_work(self, outcomes: list[TileOutcome]) -> None:
        if isinstance(self._planner, Planner):
            seconds: dict[str, float] = {}
            for outcome in outcomes:
                if outcome.busy_s is not None and not outcome.is_look:
                    seconds[outcome.worker] = seconds.get(outcome.worker, 0.0) + outcome.busy_s
            self._planner.learn_work(seconds)

    def _tell_waiting(self, ended: TileOutcome | None, names: tuple[str, ...]) -> None:
        """Tell of the frame that waits for its look, with it or, where it has not ended, without."""
        frame, self._waiting = self._waiting, None
        if frame is None:
            return
        outcomes = [outcome for outcome in frame.outcomes if outcome.kind != "pending"]
        if ended is not None:
            outcomes.append(ended)
        merged = self._merged(frame, outcomes, names)
        self._planner.observe(frame.frame_index, self._with_held(merged, outcomes))

    def _merged(self, frame: Answered, outcomes: list[TileOutcome], names: tuple[str, ...]) -> Detections:
        parts: list[tuple[Tile, Detections]] = [
            (outcome.tile, outcome.found) for outcome in outcomes if outcome.found is not None
        ]
        return merge(frame.frame_wh, parts, self._config, skipped=frame.plan.skipped, names=names)

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
