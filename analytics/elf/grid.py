"""Covering the whole frame, for want of anything known."""

from __future__ import annotations

from collections.abc import Sequence

from analytics.elf.cost import Bench
from analytics.elf.types import LOCAL, FramePlan, Policy, Tile

_OVERLAP = 0.25  # of a cell, so that an object at a border is whole in one of its neighbours


def cover(frame_wh: tuple[int, int], benches: Sequence[Bench], policy: Policy) -> FramePlan:
    """The whole frame to the worker that ends first; where none may see it all, cells within policy.

    A cell that fits in nobody's share goes to the camera's own detector, or is left out without one.
    """
    frame_px = frame_wh[0] * frame_wh[1]
    allowed = [bench for bench in benches if bench.room_px >= frame_px]
    if allowed:
        bench = min(allowed, key=lambda bench: bench.busy_s + bench.time_s(frame_px))
        bench.give(frame_px, frame_px)
        return FramePlan(
            (Tile(0, 0, *frame_wh, bench.name),), None, (), {bench.name: bench.busy_s}, covers_all=True
        )
    return _cells(frame_wh, benches, policy)


def _cells(frame_wh: tuple[int, int], benches: Sequence[Bench], policy: Policy) -> FramePlan:
    tiles: list[Tile] = []
    finish: dict[str, float] = {}
    count = 4 if frame_wh[0] * frame_wh[1] > 64 * 64 else 1
    is_whole = True
    for left, right in _spans(frame_wh[0], count):
        for top, bottom in _spans(frame_wh[1], count):
            area = (right - left) * (bottom - top)
            able = [bench for bench in benches if bench.room_px >= area]
            if not able:
                is_whole = is_whole and policy.local_detector
                if policy.local_detector:
                    tiles.append(Tile(left, top, right - left, bottom - top, LOCAL))
                continue
            bench = min(able, key=lambda bench: bench.busy_s + bench.time_s(area))
            bench.give(area, area)
            finish[bench.name] = bench.busy_s
            tiles.append(Tile(left, top, right - left, bottom - top, bench.name))
    return FramePlan(tuple(tiles), None, (), finish, covers_all=is_whole)


def _spans(length: int, count: int) -> list[tuple[int, int]]:
    cell = length / count
    overlap = cell * _OVERLAP / 2
    return [
        (max(0, int(index * cell - overlap)), min(length, int((index + 1) * cell + overlap + 0.999)))
        for index in range(count)
    ]
