"""How frames are cut into tiles: ours against Elf's strips, an equal grid and the whole frame on one worker.

    veilcam detect clip.mp4 -o clip.jsonl
    python -m bench.elf_partition clip.jsonl other.jsonl --capacities 4 2 1 1

The boxes that a detector found in a frame, padded by --pad pixels, are cut into tiles by every scheme with
the same cost model; nothing is predicted and nothing is sent. ``finish`` is the slowest worker's expected
time, ``whole`` the padded boxes that lie whole within one tile, ``busy`` the least busy worker's time as part
of the busiest one's: the median over frames, and of the sums over all frames.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from analytics.elf import Policy, Tile, WorkerView
from analytics.elf.balance import share_out
from analytics.elf.cost import Bench, tile_in_pixels
from analytics.elf.cutting import tile_around
from analytics.elf.dividing import Divider
from analytics.elf.geometry import Boxes, whole_within
from analytics.elf.grouping import Cut, group
from analytics.elf.turns import Turns
from bench.elf_predictors import TRUTH_SCORE, Clip

Size = tuple[int, int]
Scheme = Callable[[Boxes, Size, Sequence[WorkerView]], list[Tile]]
POLICY = Policy()


def ours(
    boxes: Boxes, frame_wh: Size, workers: Sequence[WorkerView], turns: Turns | None = None
) -> list[Tile]:
    """Groups that are cheaper together, shared out by finish time."""
    frame_px = frame_wh[0] * frame_wh[1]
    benches = [Bench.of(worker, POLICY, frame_px, POLICY.bytes_per_pixel) for worker in workers]
    cut = Cut(frame_wh, POLICY.stride, POLICY.align, tile_in_pixels(benches), frame_px)
    idle = [bench.busy_s for bench in benches]
    if turns:
        turns.begin(benches)
    ones = np.ones(len(boxes))
    shared = share_out(group(boxes, ones, cut), benches, Divider(boxes, ones, cut))
    if turns:
        turns.end(benches, idle)
    return [
        tile_around(each, bench.name, cut)
        for bench, given in zip(benches, shared.given, strict=True)
        for each in given
    ]


def ours_in_turns(weight: float) -> Scheme:
    """The same with handicaps for who worked longer in the frames before."""
    turns = Turns(weight)

    def scheme(boxes: Boxes, frame_wh: Size, workers: Sequence[WorkerView]) -> list[Tile]:
        return ours(boxes, frame_wh, workers, turns)

    return scheme


def elf_strips(boxes: Boxes, frame_wh: Size, workers: Sequence[WorkerView]) -> list[Tile]:
    """Elf's rule: upright strips of the boxes' hull, as wide as each worker is fast.

    A box that a border cuts goes to the side where the time grows least; each strip shrinks to its boxes.
    """
    if not len(boxes):
        return []
    left, right = boxes[:, 0].min(), boxes[:, 2].max()
    speed = np.array([worker.pixels_per_s for worker in workers])
    borders = left + (right - left) * np.concatenate([[0.0], np.cumsum(speed) / speed.sum()])
    overlap = np.minimum(boxes[:, None, 2], borders[None, 1:]) - np.maximum(
        boxes[:, None, 0], borders[None, :-1]
    )
    inside = overlap > 0
    given: list[list[int]] = [[] for _ in workers]
    for row in np.flatnonzero(inside.sum(1) == 1).tolist():
        given[int(inside[row].argmax())].append(row)
    for row in np.flatnonzero(inside.sum(1) != 1).tolist():
        able = np.flatnonzero(inside[row]).tolist() or [0]
        times = [_hull_px(boxes[[*given[index], row]]) / speed[index] for index in able]
        given[able[int(np.argmin(times))]].append(row)
    return [
        _snapped(_hull(boxes[rows]), frame_wh, worker.name)
        for rows, worker in zip(given, workers, strict=True)
        if rows
    ]


def equal_grid(_: Boxes, frame_wh: Size, workers: Sequence[WorkerView]) -> list[Tile]:
    """2 x 2 (or n upright) equal cells, whatever is in them."""
    columns, rows = (2, 2) if len(workers) == 4 else (len(workers), 1)
    width, height = -(-frame_wh[0] // columns), -(-frame_wh[1] // rows)
    cells = [(column, row) for row in range(rows) for column in range(columns)]
    return [
        Tile(
            column * width,
            row * height,
            min(width, frame_wh[0] - column * width),
            min(height, frame_wh[1] - row * height),
            worker.name,
        )
        for (column, row), worker in zip(cells, workers, strict=True)
    ]


def whole_frame(_: Boxes, frame_wh: Size, workers: Sequence[WorkerView]) -> list[Tile]:
    """Everything to the fastest worker."""
    return [Tile(0, 0, *frame_wh, max(workers, key=lambda worker: worker.pixels_per_s).name)]


def _hull(boxes: Boxes) -> Boxes:
    return np.concatenate([boxes[:, :2].min(0), boxes[:, 2:].max(0)])


def _hull_px(boxes: Boxes) -> float:
    hull = _hull(boxes)
    return float((hull[2] - hull[0]) * (hull[3] - hull[1]))


def _snapped(hull: Boxes, frame_wh: Size, worker: str) -> Tile:
    sides = []
    for axis in (0, 1):
        low, high = int(hull[axis]), int(hull[axis + 2])
        size = min(frame_wh[axis], -(-(high - low) // POLICY.stride) * POLICY.stride)
        sides.append((min(max(0, (low + high - size) // 2), frame_wh[axis] - size), size))
    return Tile(sides[0][0], sides[1][0], sides[0][1], sides[1][1], worker)


SCHEMES: tuple[tuple[str, Scheme], ...] = (
    ("ours, each frame alone", ours),
    ("ours, in turns", ours_in_turns(2.0)),
    ("Elf's strips", elf_strips),
    ("equal grid", equal_grid),
    ("whole frame, one worker", whole_frame),
)


def padded(clip: Clip, index: int, pad: float) -> Boxes:
    """The frame's boxes with their padding, whole pixels within the frame."""
    found = clip.frames[index]
    boxes = found.boxes_xyxy[found.scores >= TRUTH_SCORE].astype(np.float64)
    high = np.array(clip.frame_wh, np.float64)
    low_xy = np.floor(np.maximum(boxes[:, :2] - pad, 0) / POLICY.align) * POLICY.align
    return np.concatenate([low_xy, np.ceil(np.minimum(boxes[:, 2:] + pad, high))], 1)


def measure(
    scheme: Scheme, clips: Sequence[Clip], workers: Sequence[WorkerView], pad: float, least: int
) -> str:
    """One row of the table."""
    finish, busy, pixels, whole, total = [], [], [], 0, 0
    sums = np.zeros(len(workers))
    for clip in clips:
        frame_px = clip.frame_wh[0] * clip.frame_wh[1]
        for index in range(len(clip.frames)):
            boxes = padded(clip, index, pad)
            if len(boxes) < least:
                continue
            tiles = scheme(boxes, clip.frame_wh, workers)
            benches = {
                worker.name: Bench.of(worker, POLICY, frame_px, POLICY.bytes_per_pixel) for worker in workers
            }
            for tile in tiles:
                benches[tile.worker].give(_network_px(tile), tile.area)
            times = [bench.busy_s for bench in benches.values()]
            finish.append(max(times))
            busy.append(min(times) / max(times))
            sums += np.array(times) - [worker.delay_s for worker in workers]
            pixels.append(sum(tile.sent_pixels for tile in tiles) / frame_px)
            whole += int(
                whole_within(boxes, np.array([tile.xyxy for tile in tiles], np.float64)).any(1).sum()
            )
            total += len(boxes)
    return (
        f"{1e3 * np.mean(finish):8.1f} {1e3 * np.percentile(finish, 95):8.1f} {100 * np.mean(pixels):8.1f} "
        f"{100 * whole / total:8.2f} {100 * np.median(busy):6.0f} {100 * sums.min() / sums.max():6.0f}"
    )


def _network_px(tile: Tile) -> int:
    width, height = tile.sent_wh
    return -(-width // POLICY.stride) * -(-height // POLICY.stride) * POLICY.stride**2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("boxes", type=Path, nargs="+", help="JSON Lines of `veilcam detect`")
    parser.add_argument("--capacities", type=float, nargs="+", default=[1, 1, 1, 1], help="Mpixel/s each")
    parser.add_argument("--pad", type=float, default=12)
    parser.add_argument("--least", type=int, default=1, help="leave out frames with fewer boxes")
    parser.add_argument("--fixed-ms", type=float, default=3)
    arguments = parser.parse_args()
    clips = [Clip.read(path) for path in arguments.boxes]
    workers = [
        WorkerView(f"w{index}", 1e6 * speed, 12.5e6, 0.002, arguments.fixed_ms / 1e3)
        for index, speed in enumerate(arguments.capacities)
    ]
    print(f"{sum(len(clip.frames) for clip in clips)} frames, capacities {arguments.capacities} Mpixel/s")
    print(f"{'scheme':24s} finish ms      p95 pixels %  whole % busy % sums %")
    for name, scheme in SCHEMES:
        print(f"{name:24s} {measure(scheme, clips, workers, arguments.pad, arguments.least)}", flush=True)


if __name__ == "__main__":
    main()
