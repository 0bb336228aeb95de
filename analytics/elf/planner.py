"""The planner: what is known about a camera's objects, and from it a plan for the next frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analytics.detections import Detections
from analytics.elf.balance import Shared, fit_in, share_out
from analytics.elf.changes import FrameChanges, Plane
from analytics.elf.cost import Bench, tile_in_pixels
from analytics.elf.cutting import cut_edges, tile_around
from analytics.elf.dividing import Divider
from analytics.elf.geometry import Boxes, Mask, Numbers, Rows, whole_within
from analytics.elf.grid import cover
from analytics.elf.grouping import Cut, group
from analytics.elf.look import LookSchedule
from analytics.elf.motion import ChangeMap, MotionRules
from analytics.elf.prediction import MAX_REGIONS, KalmanPredictor, Predictor
from analytics.elf.regions import RegionRules, RegionTable
from analytics.elf.sweep import Sweep
from analytics.elf.turns import Turns
from analytics.elf.types import LOCAL, FramePlan, Policy, Skipped, Tile, WorkerView
from base.errors import UsageError

_REMEMBERED_PLANS = 16
_TURNS = 2.0  # bench/elf_partition.py: busy times 46 to 82 % of each other at 4:2:1:1, frames 4 % longer
_UNPROVEN_STILL = 6  # frames that what was found only once is carried unseen: it is a mistake more often


@dataclass(frozen=True, slots=True)
class Padding:
    """How much is sent around a predicted box.

    Attributes:
        spreads: so many of the predictor's standard deviations on every side.
        small_side, small_margin: so many pixels more around what is smaller than ``small_side``: a detector
            needs what surrounds a small object to tell what it is. Chosen on clips (docs/elf.md).
        full_side: root of a frame's area below which both of these grow, up to half as much again: in a
            small frame most objects are small, and its tiles cost little beside what every tile costs.
        cut: further part of the object's size beyond an edge at which the last tile cut it.
    """

    spreads: float = 2.5
    small_side: int = 32
    small_margin: int = 12
    full_side: int = 480
    cut: float = 0.5

    def small_in(self, frame_wh: tuple[int, int]) -> tuple[float, float]:
        """``small_side`` and ``small_margin`` in a frame of that width and height."""
        grown = min(max(self.full_side / (frame_wh[0] * frame_wh[1]) ** 0.5, 1.0), 1.5)
        return grown * self.small_side, grown * self.small_margin


@dataclass(frozen=True, slots=True)
class _Sent:
    tiles: tuple[Tile, ...]
    slots: Mask
    is_look: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    boxes: Boxes  # [n, 4] padded, whole pixels; unknown motion comes last
    scales: Numbers  # [n]
    slots: Rows  # of the known objects among them, first
    still: Rows  # slots that are not sent
    patch: Boxes  # [0 or 1, 4] of background, whole pixels


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
        motion: MotionRules | None = None,
    ) -> None:
        self._policy = policy or Policy()
        self._padding = padding or Padding()
        self._table = RegionTable(predictor or KalmanPredictor(), rules)
        self._look = LookSchedule(self._policy.look_every)
        self._frame_changes = FrameChanges(self._policy.stride)
        self._seen: Mask | None = None
        self._changes = ChangeMap(self._policy.stride, motion)
        self._sweep = Sweep(self._policy.stride, self._policy.sweep_share)
        self._turns = Turns(_TURNS)
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

    def see(self, luma_hw: Plane) -> None:
        """Look at a protected frame (uint8 [H, W]) before it is planned, to know where it has changed.

        Takes about 0.2 ms at 768x576. Every frame that is planned should be seen, or none.
        """
        self._seen = self._frame_changes.update(luma_hw)

    def plan(
        self,
        frame_index: int,
        frame_wh: tuple[int, int],
        workers: Sequence[WorkerView],
        changed: Mask | None = None,
    ) -> FramePlan:
        """What to send where for a frame.

        Args:
            frame_index: rises from plan to plan; gaps are frames that were not sent.
            frame_wh: width and height in pixels; another size than before forgets every object.
            workers: those that are up. Without any, everything is planned for LOCAL.
            changed: which cells of Policy.stride pixels differ from the last planned frame, [rows, columns],
                instead of what ``see`` finds. With it still objects are skipped, and what moves and is not
                known is sent at once; without it only looks find new objects.

        Raises:
            UsageError: ``frame_index`` did not rise, two workers have one name, or wrong ``changed``.
        """
        self._check(frame_index, workers)
        self._resize(frame_wh)
        self._changes.take(frame_index, self._seen if changed is None else changed)
        self._seen = None
        frame_px = frame_wh[0] * frame_wh[1]
        views = list(workers) or [WorkerView(LOCAL, 1e6)]
        benches = [Bench.of(view, self._policy, frame_px, self.bytes_per_pixel) for view in views]
        idle_s = [bench.busy_s for bench in benches]
        if self._observed < 0 or frame_px < self._policy.smallest_cut_px:
            self._turns.begin(benches)
            plan = cover(frame_wh, benches, self._policy)
            self._turns.end(benches, idle_s)
            self._look.looked(frame_index)
            self._remember(frame_index, plan, np.ones(MAX_REGIONS, np.bool_))
            return plan
        wanted = self._wanted(frame_index)
        cut = self._cut(benches)
        self._turns.begin(benches)
        divider = Divider(wanted.boxes, wanted.scales, cut)
        shared = share_out(group(wanted.boxes, wanted.scales, cut), benches, divider)
        for patch in group(wanted.patch, np.ones(len(wanted.patch)), cut):
            self._sweep.offered(fit_in(patch, shared, benches, must=self._sweep.must))
        self._turns.end(benches, idle_s)
        look = self._plan_look(frame_index, views, benches)  # behind the tiles: nobody waits for it
        plan = self._frame_plan(shared, benches, cut, look, wanted)
        sent = np.zeros(MAX_REGIONS, np.bool_)
        sent[wanted.slots] = True
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
        self._changes.answered(frame_index, merged.boxes_xyxy.astype(np.float64))
        new = self._table.observe(frame_index, self._frame_wh, merged, sent.slots)
        if sent.is_look:
            boxes = merged.boxes_xyxy[new].astype(np.float64)
            tiles = np.array([tile.xyxy for tile in sent.tiles], np.float64).reshape(-1, 4)
            self._look.answered(int((~whole_within(boxes, tiles).any(1)).sum()))
            # with changed cells what moves is found without a look
            is_blind = self._changes.is_blind
            speeds = self._table.speeds(frame_index, self._frame_wh) if is_blind else np.zeros(0)
            self._look.moving(speeds)
        else:
            self._mark_cut(frame_index, sent.tiles)

    def learn_work(self, seconds: Mapping[str, float]) -> None:
        """Workers, by name, worked so long on a frame's tiles."""
        self._turns.worked(seconds)

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
            self._changes.resize(frame_wh)
            self._sweep.resize(frame_wh)
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

    def _wanted(self, frame_index: int) -> _Wanted:
        """What should be sent: known objects that do not stand still, and unknown motion."""
        slots, boxes, spread = self._expected(frame_index)
        sides = boxes[:, 2:] - boxes[:, :2]
        pad = self._padding.spreads * spread + self._policy.margin
        small_side, small_margin = self._padding.small_in(self._frame_wh)
        is_small = sides.min(1, keepdims=True, initial=np.inf) < small_side
        pad += np.where(is_small, small_margin, 0)
        cut = self._table.cut[slots]
        if cut.any():
            pad += self._padding.cut * cut * np.concatenate([sides, sides], 1)
        pad[:, :2] *= -1
        padded, patch = self._within(self._as_one(slots, boxes, boxes + pad), self._sweep.patch())
        still = self._changes.still(frame_index, slots, padded, self._table.tried[slots])
        still &= self._table.is_proven(slots) | (frame_index - self._table.tried[slots] < _UNPROVEN_STILL)
        motion = self._changes.propose(frame_index, padded)
        if len(motion):
            margin = self._policy.margin * np.array([-1.0, -1.0, 1.0, 1.0])
            motion, patch = self._within(motion + margin, patch)
        if not still.any() and not len(motion):
            return _Wanted(padded, self._scales(sides), slots, slots[:0], patch)
        moving = ~still
        return _Wanted(
            np.concatenate([padded[moving], motion]),
            np.concatenate([self._scales(sides[moving]), np.ones(len(motion))]),
            slots[moving],
            slots[still],
            patch,
        )

    def _as_one(self, slots: Rows, boxes: Boxes, padded: Boxes) -> Boxes:
        """``padded`` [n, 4], where objects in one place share the room of the best known one among them."""
        best = self._table.doubles(slots, boxes)
        double = np.flatnonzero(best != np.arange(len(best)))
        if not len(double):
            return padded
        result, shared = padded.copy(), padded[best[double]]
        own = boxes[double] + self._policy.margin * np.array([-1.0, -1.0, 1.0, 1.0])
        low, high = np.minimum(own[:, :2], shared[:, :2]), np.maximum(own[:, 2:], shared[:, 2:])
        missed = self._table.was_missed(slots[double])[:, None]
        result[double] = np.where(missed, shared, np.concatenate([low, high], 1))
        return result

    def _expected(self, frame_index: int) -> tuple[Rows, Boxes, Boxes]:
        """Slots, boxes and spreads of known objects; those that should have left the frame are forgotten."""
        slots = self._table.slots
        prediction = self._table.predict(frame_index, self._frame_wh)
        boxes, spread = prediction.boxes_xyxy, prediction.spread_px
        inside = np.minimum(boxes[:, 2:], self._frame_wh) - np.maximum(boxes[:, :2], 0)
        gone = inside.min(1, initial=np.inf) <= 2
        if not gone.any():
            return slots, boxes, spread
        self._table.drop(slots[gone])
        return slots[~gone], boxes[~gone], spread[~gone]

    def _within(self, *parts: Boxes) -> list[Boxes]:
        """In whole pixels, cut to the frame, at least one pixel each, begun at multiples of ``align``."""
        high = np.array(self._frame_wh, np.float64)
        align = self._policy.align
        boxes = np.concatenate(parts)
        whole = np.empty_like(boxes)
        low, end = whole[:, :2], whole[:, 2:]
        np.floor(np.minimum(np.maximum(boxes[:, :2], 0), high - 1) / align, out=low)
        low *= align
        np.ceil(np.minimum(boxes[:, 2:], high), out=end)
        np.maximum(end, low + 1, out=end)
        begins = [sum(len(part) for part in parts[:index]) for index in range(len(parts))]
        return [whole[begin : begin + len(part)] for part, begin in zip(parts, begins, strict=True)]

    def _scales(self, sides: Boxes) -> Numbers:
        if not self._policy.min_side:
            return np.ones(len(sides))
        steps = np.array(self._policy.scales)
        wanted = self._policy.min_side / np.maximum(sides.min(1), 1.0)
        return np.asarray(steps[np.minimum(np.searchsorted(steps, wanted), len(steps) - 1)])

    def _cut(self, benches: Sequence[Bench]) -> Cut:
        largest = max(bench.room_px for bench in benches)
        return Cut(self._frame_wh, self._policy.stride, self._policy.align, tile_in_pixels(benches), largest)

    def _frame_plan(
        self, shared: Shared, benches: Sequence[Bench], cut: Cut, look: Tile | None, wanted: _Wanted
    ) -> FramePlan:
        tiles = [
            tile_around(tile, bench.name, cut)
            for bench, given in zip(benches, shared.given, strict=True)
            for tile in given
        ]
        quiet = wanted.still[self._table.is_there(wanted.still)]
        skipped = [self._skip(slot, "quiet") for slot in quiet.tolist()]
        for refused in shared.refused:
            if self._policy.local_detector:
                tiles.append(tile_around(refused, LOCAL, cut))
            else:
                missing = [row for row in refused.members if row < len(wanted.slots)]
                skipped += [self._skip(int(wanted.slots[row]), "policy") for row in missing]
        busy = {bench.name: bench.busy_s for bench in benches}
        used = {tile.worker for tile in tiles} | ({look.worker} if look else set())
        finish = {name: busy[name] for name in sorted(used) if name in busy}
        return FramePlan(tuple(tiles), look, tuple(skipped), finish)

    def _skip(self, slot: int, reason: Literal["quiet", "policy"]) -> Skipped:
        left, top, right, bottom = self._table.boxes[slot].tolist()
        score, class_id = float(self._table.scores[slot]), int(self._table.class_ids[slot])
        return Skipped((left, top, right, bottom), score, class_id, reason)

    def _remember(self, frame_index: int, plan: FramePlan, slots: Mask) -> None:
        self._sweep.sent(frame_index, plan.tiles)
        self._sent[frame_index] = _Sent(plan.tiles, slots, plan.look is not None or plan.covers_all)
        while len(self._sent) > _REMEMBERED_PLANS:
            del self._sent[min(self._sent)]

    def _mark_cut(self, frame_index: int, tiles: Sequence[Tile]) -> None:
        slots = self._table.slots
        slots = slots[self._table.seen[slots] == frame_index]
        if len(slots) and tiles:
            self._table.cut[slots] = cut_edges(self._table.boxes[slots], tiles, self._frame_wh)
