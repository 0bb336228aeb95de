"""Evening out over several frames what tiles cannot be cut for in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analytics.elf.cost import Bench

_MEMORY = 0.9


class Turns:
    """Who worked longer than others lately starts a frame with a handicap, so that equals take turns.

    With few objects there are fewer tiles than workers, and the same ones would get them every time.
    What a worker tells it has worked counts instead of what was planned for it, so that wrong beliefs and
    costs on the way do not keep one busier than another.
    """

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self._worked_s: dict[str, float] = {}
        self._handicap_s: list[float] = []
        self._telling: set[str] = set()  # workers that tell how long they worked

    def begin(self, benches: Sequence[Bench]) -> None:
        """Add the handicaps to the benches' times."""
        names = {bench.name for bench in benches}
        self._worked_s = {name: worked for name, worked in self._worked_s.items() if name in names}
        self._telling &= names
        worked = [self._worked_s.get(bench.name, 0.0) for bench in benches]
        least_s = min(worked)
        self._handicap_s = [self._weight * (each - least_s) for each in worked]
        for bench, handicap_s in zip(benches, self._handicap_s, strict=True):
            bench.busy_s += handicap_s

    def end(self, benches: Sequence[Bench], idle_s: Sequence[float]) -> None:
        """Take them off again; ``idle_s`` is what each bench had without any work of this frame."""
        for bench, handicap_s, began_s in zip(benches, self._handicap_s, idle_s, strict=True):
            bench.busy_s -= handicap_s
            if bench.name not in self._telling:
                self._add(bench.name, bench.busy_s - began_s)

    def worked(self, seconds: Mapping[str, float]) -> None:
        """How long workers worked on one frame's tiles, as they say; who got none has told before or not."""
        self._telling |= seconds.keys() & self._worked_s.keys()
        for name in self._telling:
            self._add(name, seconds.get(name, 0.0))

    def _add(self, name: str, seconds: float) -> None:
        self._worked_s[name] = _MEMORY * self._worked_s.get(name, 0.0) + (1 - _MEMORY) * seconds
