"""What a tile costs a worker, and how many frame pixels that worker may still see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analytics.elf.types import Policy, WorkerView


@dataclass(slots=True)
class Bench:
    """One worker while a frame is being planned.

    finish = delay + sum over its tiles of (fixed + bytes / link + pixels / speed): sending and detecting of
    one worker's tiles do overlap in part, so this is an upper bound, for every worker alike.

    Attributes:
        name: of the WorkerView.
        busy_s: finish time with what it has so far.
        tile_s, pixel_s: time of a tile, whatever its size, and of each pixel sent in it.
        room_px: pixels of the frame that it may still see.
    """

    name: str
    busy_s: float
    tile_s: float
    pixel_s: float
    room_px: float

    @classmethod
    def of(cls, worker: WorkerView, policy: Policy, frame_px: int, bytes_per_pixel: float) -> Bench:
        """A worker with nothing to do yet."""
        return cls(
            worker.name,
            worker.delay_s,
            worker.fixed_s,
            1 / worker.pixels_per_s + bytes_per_pixel / worker.bytes_per_s,
            policy.share_of(worker) * frame_px,
        )

    def time_s(self, pixels: float) -> float:
        """What a tile of so many sent pixels adds."""
        return self.tile_s + pixels * self.pixel_s

    def give(self, pixels: float, seen_px: float) -> None:
        """Add a tile (negative values take one away with ``take``)."""
        self.busy_s += self.time_s(pixels)
        self.room_px -= seen_px

    def take(self, pixels: float, seen_px: float) -> None:
        """Remove a tile."""
        self.busy_s -= self.time_s(pixels)
        self.room_px += seen_px


def tile_in_pixels(benches: Sequence[Bench]) -> float:
    """The fixed cost of a tile as a number of pixels, on the mean worker (faster ones count more)."""
    pixel_s = len(benches) / sum(1 / bench.pixel_s for bench in benches)
    speed = sum(1 / bench.pixel_s for bench in benches)
    tile_s = sum(bench.tile_s / bench.pixel_s for bench in benches) / speed
    return tile_s / pixel_s
