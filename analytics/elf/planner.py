"""The planner: what is known about a camera's objects, and from it a plan for the next frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analytics.detections import Detections
from analytics.elf.types import LOCAL, FramePlan, Policy, Tile, WorkerView


class Planner:
    """Plans one camera's frames from what was found in earlier ones. Not safe for two threads at once.

    The same calls always give the same plans: there is no clock and no chance in it.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self.bytes_per_pixel = self._policy.bytes_per_pixel
        self._boxes: np.ndarray[tuple[int, int], np.dtype[np.float64]] | None = None
        self._look_at = 0

    def plan(self, frame_index: int, frame_wh: tuple[int, int], workers: Sequence[WorkerView]) -> FramePlan:
        """The tiles of frame ``frame_index`` (rising), which no result is known of yet."""
        allowed = [worker for worker in workers if self._policy.share_of(worker) >= 1]
        whole = Tile(0, 0, *frame_wh, max(allowed, key=lambda w: w.pixels_per_s).name if allowed else LOCAL)
        boxes = self._boxes
        if boxes is None or not workers:
            return FramePlan((whole,), covers_all=True)
        look = None
        if frame_index >= self._look_at:
            look = Tile(0, 0, *frame_wh, whole.worker, self._policy.look_scale)
            self._look_at = frame_index + self._policy.look_every[0]
        left: dict[str, float] = {worker.name: worker.delay_s for worker in workers}
        tiles = []
        for box in sorted(boxes.tolist(), key=lambda box: -(box[2] - box[0]) * (box[3] - box[1])):
            tile = self._tile(box, frame_wh)
            worker = min(workers, key=lambda w: left[w.name] + w.fixed_s + tile.sent_pixels / w.pixels_per_s)
            cost = worker.fixed_s + tile.sent_pixels / worker.pixels_per_s
            if tile.area > self._policy.share_of(worker) * frame_wh[0] * frame_wh[1]:
                tiles.append(tile)
                continue
            left[worker.name] += cost
            tiles.append(Tile(tile.left, tile.top, tile.width, tile.height, worker.name))
        return FramePlan(tuple(tiles), look, (), left)

    def observe(self, frame_index: int, merged: Detections) -> None:
        """Take the merged result of a planned frame. Late ones are welcome, older ones than the last are not used."""
        self._boxes = merged.boxes_xyxy.astype(np.float64)

    def _tile(self, box: list[float], frame_wh: tuple[int, int]) -> Tile:
        margin, stride = self._policy.margin, self._policy.stride
        sides = []
        for low, high, limit in ((box[0], box[2], frame_wh[0]), (box[1], box[3], frame_wh[1])):
            size = min(limit, -(-int(high - low + 2 * margin) // stride) * stride)
            start = min(max(0, int((low + high - size) / 2)), limit - size)
            sides.append((start, size))
        return Tile(sides[0][0], sides[1][0], sides[0][1], sides[1][1], LOCAL)
