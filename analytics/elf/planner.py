"""The planner: what is known about a camera's objects, and from it a plan for the next frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analytics.detections import Detections
from analytics.elf.balance import Shared, share_out
from analytics.elf.cost import Bench, tile_in_pixels
from analytics.elf.cutting import cut_edges, tile_around
from analytics.elf.geometry import Boxes, Mask, Numbers
from analytics.elf.grid import cover
from analytics.elf.grouping import Cut, Group, group
from analytics.elf.look import LookSchedule
from analytics.elf.prediction import MAX_REGIONS, KalmanPredictor, Predictor
from analytics.elf.regions import RegionRules, RegionTable
from analytics.elf.types import LOCAL, FramePlan, Policy, Skipped, Tile, WorkerView
from base.errors import UsageError

_REMEMBERED_PLANS = 16


@dataclass(frozen=True, slots=True)
class Padding:
    """How much is sent around a predicted box.

    Attributes:
        spreads: so many of the predictor's standard deviations on every side.
        cut: further part of the object's size beyond an edge at which the last tile cut it.
    """

    spreads: float = 2.0
    cut: float = 0.5


@dataclass(frozen=True, slots=True)
class _Sent:
    tiles: tuple[Tile, ...]
    slots: Mask
    is_look: bool


class Planner:
    """Plans one camera's frames from what was found in earlier ones. Not safe for two threads at once.

    The same calls always give the same plans: there is no clock and no chance in it.

    Attributes:
        bytes_per_pixel: of a coded tile; the pool keeps it up to date (``learn_bytes``).
    """

    def __init__(
        self,
        policy: Policy | None = None,
        predictor: Predictor | None = None,
        padding: Padding | None = None,
        rules: RegionRules | None = None,
    ) -> None:
        self._policy = policy or Policy()
        self._padding = padding or Padding()
        self._table = RegionTable(predictor or KalmanPredictor(), rules)
        self._look = LookSchedule(self._policy.look_every)
        self._sent: dict[int, _Sent] = {}
        self._planned = self._observed = -1
        self._frame_wh = (0, 0)
        self.bytes_per_pixel = self._policy.bytes_per_pixel

    @property
    def look_every(self) -> int:
        """Frames from one look to the next, as things are now."""
        return self._look.every

    @property
    def num_regions(self) -> int:
        """Objects that are followed."""
        return len(self._table.slots)

    def plan(self, frame_index: int, frame_wh: tuple[int, int], workers: Sequence[WorkerView]) -> FramePlan:
        """What to send where for a frame.

        Args:
            frame_index: rises from plan to plan; gaps are frames that were not sent.
            frame_wh: width and height in pixels; another size than before forgets every object.
            workers: those that are up. Without any, everything is planned for LOCAL.

        Raises:
            UsageError: ``frame_index`` did not rise, or two workers have one name.
        """
        self._check(frame_index, workers)
        self._resize(frame_wh)
        frame_px = frame_wh[0] * frame_wh[1]
        views = list(workers) or [WorkerView(LOCAL, 1e6)]
        benches = [Bench.of(view, self._policy, frame_px, self.bytes_per_pixel) for view in views]
        if self._observed < 0:
            plan = cover(frame_wh, benches, self._policy)
            self._look.looked(frame_index)
            self._remember(frame_index, plan, np.ones(MAX_REGIONS, np.bool_))
            return plan
        look = self._plan_look(frame_index, views, benches)
        boxes, scales = self._wanted(frame_index)
        cut = self._cut(benches)
        shared = share_out(group(boxes, scales, cut), benches)
        plan = self._frame_plan(shared, benches, cut, look)
        sent = np.zeros(MAX_REGIONS, np.bool_)
        sent[self._table.slots] = True
        self._remember(frame_index, plan, sent)
        return plan

    def observe(self, frame_index: int, merged: Detections) -> None:
        """Take the merged result of a planned frame.

        It may come after later frames were planned. A result older than the last one, or of a frame that was
        not planned lately, is passed over.
        """
        sent = self._sent.pop(frame_index, None)
        if sent is None or frame_index <= self._observed:
            return
        self._observed = frame_index
        self._sent = {index: known for index, known in self._sent.items() if index > frame_index}
        new = self._table.observe(frame_index, self._frame_wh, merged, sent.slots)
        if sent.is_look:
            self._look.answered(len(new))
            self._look.moving(self._table.speeds(frame_index, self._frame_wh))
        else:
            self._mark_cut(frame_index, sent.tiles)
        self._table.drop_outside(frame_index, self._frame_wh)

    def learn_bytes(self, sent_pixels: int, num_bytes: int) -> None:
        """So many pixels were coded into so many bytes."""
        if sent_pixels > 0:
            seen = min(16.0, max(1e-3, num_bytes / sent_pixels))
            self.bytes_per_pixel += 0.1 * (seen - self.bytes_per_pixel)

    def _check(self, frame_index: int, workers: Sequence[WorkerView]) -> None:
        if frame_index <= self._planned:
            message = f"plan: expected a frame after {self._planned}, got {frame_index}"
            raise UsageError(message)
        if len({worker.name for worker in workers}) != len(workers):
            message = (
                f"plan: expected workers with different names, got {[worker.name for worker in workers]}"
            )
            raise UsageError(message)
        self._planned = frame_index

    def _resize(self, frame_wh: tuple[int, int]) -> None:
        if frame_wh != self._frame_wh:
            self._table.clear()
            self._sent.clear()
            self._frame_wh, self._observed = frame_wh, -1

    def _plan_look(
        self, frame_index: int, views: Sequence[WorkerView], benches: Sequence[Bench]
    ) -> Tile | None:
        if not self._look.is_due(frame_index):
            return None
        self._look.looked(frame_index)
        policy = self._policy
        look = Tile(0, 0, *self._frame_wh, LOCAL, policy.look_scale)
        allowed = [
            bench
            for view, bench in zip(views, benches, strict=True)
            if policy.share_of(view) >= 1
            and (policy.look == "any" or (policy.look == "trusted" and view.trusted) or view.name == LOCAL)
        ]
        if not allowed:
            return look if policy.local_detector else None
        bench = min(allowed, key=lambda bench: bench.busy_s + bench.time_s(look.sent_pixels))
        bench.busy_s += bench.time_s(look.sent_pixels)  # no room is used: this worker may see everything
        return Tile(0, 0, *self._frame_wh, bench.name, policy.look_scale)

    def _wanted(self, frame_index: int) -> tuple[Boxes, Numbers]:
        """Padded boxes [n, 4] in whole pixels within the frame, and the scale [n] each may be sent at."""
        prediction = self._table.predict(frame_index, self._frame_wh)
        boxes = prediction.boxes_xyxy
        sides = boxes[:, 2:] - boxes[:, :2]
        pad = self._padding.spreads * prediction.spread_px + self._policy.margin
        pad += self._padding.cut * self._table.cut[self._table.slots] * np.concatenate([sides, sides], 1)
        low = np.floor(np.maximum(boxes[:, :2] - pad[:, :2], 0))
        high = np.ceil(np.minimum(boxes[:, 2:] + pad[:, 2:], self._frame_wh))
        low = np.minimum(low, np.array(self._frame_wh) - 1.0)
        padded = np.concatenate([low, np.maximum(high, low + 1)], 1)
        return padded, self._scales(sides)

    def _scales(self, sides: Boxes) -> Numbers:
        if not self._policy.min_side:
            return np.ones(len(sides))
        steps = np.array(self._policy.scales)
        wanted = self._policy.min_side / np.maximum(sides.min(1), 1.0)
        return np.asarray(steps[np.minimum(np.searchsorted(steps, wanted), len(steps) - 1)])

    def _cut(self, benches: Sequence[Bench]) -> Cut:
        largest = max(bench.room_px for bench in benches)
        return Cut(self._frame_wh, self._policy.stride, tile_in_pixels(benches), largest)

    def _frame_plan(self, shared: Shared, benches: Sequence[Bench], cut: Cut, look: Tile | None) -> FramePlan:
        tiles = [
            tile_around(tile, bench.name, cut)
            for bench, given in zip(benches, shared.given, strict=True)
            for tile in given
        ]
        skipped: list[Skipped] = []
        for refused in shared.refused:
            if self._policy.local_detector:
                tiles.append(tile_around(refused, LOCAL, cut))
            else:
                skipped += self._skip(refused)
        busy = {bench.name: bench.busy_s for bench in benches}
        used = {tile.worker for tile in tiles} | ({look.worker} if look else set())
        finish = {name: busy[name] for name in sorted(used) if name in busy}
        return FramePlan(tuple(tiles), look, tuple(skipped), finish)

    def _skip(self, refused: Group) -> list[Skipped]:
        slots = self._table.slots[list(refused.members)]
        return [
            Skipped(
                tuple(self._table.boxes[slot].tolist()),
                float(self._table.scores[slot]),
                int(self._table.class_ids[slot]),
                "policy",
            )
            for slot in slots
        ]

    def _remember(self, frame_index: int, plan: FramePlan, slots: Mask) -> None:
        self._sent[frame_index] = _Sent(plan.tiles, slots, plan.look is not None or plan.covers_all)
        while len(self._sent) > _REMEMBERED_PLANS:
            del self._sent[min(self._sent)]

    def _mark_cut(self, frame_index: int, tiles: Sequence[Tile]) -> None:
        slots = self._table.slots
        slots = slots[self._table.seen[slots] == frame_index]
        if len(slots) and tiles:
            self._table.cut[slots] = cut_edges(self._table.boxes[slots], tiles, self._frame_wh)
