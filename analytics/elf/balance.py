"""Which worker gets which tile: the slowest one's finish time is made as small as it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analytics.elf.cost import Bench
from analytics.elf.dividing import Divider
from analytics.elf.grouping import Group

_MAX_STEPS = 48
_LEAST_GAIN = 1e-9


@dataclass(slots=True)
class Shared:
    """Tiles by worker, in the order of the benches, and what no worker may see."""

    given: list[list[Group]]
    refused: list[Group]


def share_out(groups: Sequence[Group], benches: Sequence[Bench], divider: Divider | None = None) -> Shared:
    """Give every tile to a worker.

    First the longest ones, each to where it ends first (LPT; Graham 1969, for unequal machines). Then, while
    the slowest worker's time falls, one of its tiles moves, changes places with a smaller one or is split:
    into what it was joined from, or into two that may overlap.
    A tile that fits in nobody's share is split; a single object that fits in nobody's is refused.

    Args:
        groups: tiles.
        benches: workers; their ``busy_s`` and ``room_px`` are changed.
        divider: how tiles can be divided; without it only into what they were joined from.
    """
    shared = Shared([[] for _ in benches], [])
    waiting = sorted(groups, key=_size)
    while waiting:
        tile = waiting.pop()
        owner = _first_to_finish(tile, benches)
        if owner is not None:
            _give(shared, benches, owner, tile)
        elif tile.parts:
            waiting = sorted([*waiting, *tile.parts], key=_size)
        else:
            shared.refused.append(tile)
    for _ in range(_MAX_STEPS):
        if not _improve(shared, benches, divider):
            break
    return shared


def fit_in(tile: Group, shared: Shared, benches: Sequence[Bench], *, must: bool) -> bool:
    """Give ``tile`` to who ends it first, if the frame does not take longer for it.

    Also if it ``must`` be sent, or nothing else is; whether it was given away.
    """
    owner = _first_to_finish(tile, benches)
    if owner is None:
        return False
    latest_s = max(bench.busy_s for bench in benches)
    is_free = must or not any(shared.given)
    if not is_free and benches[owner].busy_s + benches[owner].time_s(tile.sent_px) > latest_s:
        return False
    _give(shared, benches, owner, tile)
    return True


def _size(tile: Group) -> tuple[float, tuple[int, ...]]:
    return tile.sent_px, tile.members


def _first_to_finish(tile: Group, benches: Sequence[Bench]) -> int | None:
    best, best_s = None, float("inf")
    for index, bench in enumerate(benches):
        finish_s = bench.busy_s + bench.tile_s + tile.sent_px * bench.pixel_s
        if finish_s < best_s and tile.seen_px <= bench.room_px:
            best, best_s = index, finish_s
    return best


def _give(shared: Shared, benches: Sequence[Bench], owner: int, tile: Group) -> None:
    shared.given[owner].append(tile)
    benches[owner].give(tile.sent_px, tile.seen_px)


def _take(shared: Shared, benches: Sequence[Bench], owner: int, tile: Group) -> None:
    shared.given[owner].remove(tile)
    benches[owner].take(tile.sent_px, tile.seen_px)


def _improve(shared: Shared, benches: Sequence[Bench], divider: Divider | None) -> bool:
    """One step that makes the slowest worker end earlier and none end later than it did."""
    slowest = max(range(len(benches)), key=lambda index: benches[index].busy_s)
    if not shared.given[slowest]:
        return False
    limit_s = benches[slowest].busy_s - _LEAST_GAIN
    step = (
        _move(shared, benches, slowest, limit_s)
        or _swap(shared, benches, slowest, limit_s)
        or _split(shared, benches, slowest, limit_s)
        or (_divide(shared, benches, slowest, limit_s, divider) if divider is not None else None)
    )
    if not step:
        return False
    for owner, tile in step[0]:
        _take(shared, benches, owner, tile)
    for owner, tile in step[1]:
        _give(shared, benches, owner, tile)
    return True


_Changes = list[tuple[int, Group]]
_Step = tuple[_Changes, _Changes]  # taken away, given


def _move(shared: Shared, benches: Sequence[Bench], slowest: int, limit_s: float) -> _Step | None:
    best: _Step | None = None
    source = benches[slowest]
    for tile in shared.given[slowest]:
        pixels, seen_px = tile.sent_px, tile.seen_px
        rest_s = source.busy_s - source.tile_s - pixels * source.pixel_s
        for index, bench in enumerate(benches):
            worse_s = bench.busy_s + bench.tile_s + pixels * bench.pixel_s
            if worse_s >= limit_s or index == slowest or seen_px > bench.room_px:
                continue
            if rest_s < limit_s:
                limit_s = worse_s if worse_s > rest_s else rest_s
                best = ([(slowest, tile)], [(index, tile)])
    return best


def _swap(shared: Shared, benches: Sequence[Bench], slowest: int, limit_s: float) -> _Step | None:
    best: _Step | None = None
    source = benches[slowest]
    for index, bench in enumerate(benches):
        if index == slowest or bench.busy_s >= limit_s:
            continue
        most_px = (limit_s - bench.busy_s) / bench.pixel_s
        for tile in shared.given[slowest]:
            for other in shared.given[index]:
                change_px = tile.sent_px - other.sent_px
                if not 0 < change_px < most_px:
                    continue
                gap_px = tile.seen_px - other.seen_px
                if gap_px > bench.room_px or -gap_px > source.room_px:
                    continue
                rest_s = source.busy_s - change_px * source.pixel_s
                worse_s = bench.busy_s + change_px * bench.pixel_s
                worse_s = worse_s if worse_s > rest_s else rest_s
                if worse_s < limit_s:
                    limit_s = worse_s
                    best = ([(slowest, tile), (index, other)], [(index, tile), (slowest, other)])
    return best


def _split(shared: Shared, benches: Sequence[Bench], slowest: int, limit_s: float) -> _Step | None:
    best: _Step | None = None
    source = benches[slowest]
    for tile in shared.given[slowest]:
        if tile.parts is None:
            continue
        rest_s, room_px = source.busy_s - source.time_s(tile.sent_px), source.room_px + tile.seen_px
        for away, stays in (tile.parts, tile.parts[::-1]):
            stays_s = rest_s + source.time_s(stays.sent_px)
            if stays_s >= limit_s or stays.seen_px > room_px:
                continue
            for index, bench in enumerate(benches):
                if index == slowest or away.seen_px > bench.room_px:
                    continue
                away_s = bench.busy_s + bench.time_s(away.sent_px)
                worse_s = away_s if away_s > stays_s else stays_s
                if worse_s < limit_s:
                    limit_s, best = worse_s, ([(slowest, tile)], [(index, away), (slowest, stays)])
    return best


def _divide(
    shared: Shared, benches: Sequence[Bench], slowest: int, limit_s: float, divider: Divider
) -> _Step | None:
    """The division of one of the slowest worker's tiles after which it and who helps end first."""
    best: _Step | None = None
    source = benches[slowest]
    helpers = [
        (index, bench)
        for index, bench in enumerate(benches)
        if index != slowest and bench.busy_s + bench.tile_s < limit_s
    ]
    for tile in shared.given[slowest] if helpers else ():
        ways = divider.ways(tile)
        if ways is None:
            continue
        rest_s, room_px = source.busy_s - source.time_s(tile.sent_px), source.room_px + tile.seen_px
        for away in (0, 1):
            stays = 1 - away
            stays_s = rest_s + source.tile_s + ways.sent_px[stays] * source.pixel_s
            stays_s = np.where(ways.seen_px[stays] <= room_px, stays_s, np.inf)
            for index, bench in helpers:
                away_s = bench.busy_s + bench.tile_s + ways.sent_px[away] * bench.pixel_s
                away_s = np.where(ways.seen_px[away] <= bench.room_px, away_s, np.inf)
                worse_s = np.maximum(away_s, stays_s)
                way = int(worse_s.argmin())
                if worse_s[way] < limit_s:
                    limit_s = float(worse_s[way])
                    halves = divider.halves(tile, ways, way)
                    best = ([(slowest, tile)], [(index, halves[away]), (slowest, halves[stays])])
    return best
