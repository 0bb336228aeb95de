"""A scripted WHEP session: the UnitStream protocol over a list of access units."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """See analytics.stream.EncodedUnit."""

    data: bytes
    pts_us: int


class ScriptedUnits:
    """Gives its units at once, then waits for ever, ends, or fails."""

    def __init__(self, units: Sequence[bytes], *, end: Exception | bool = True) -> None:
        self._units = [Unit(data, 5_000_000 + index * 100_000) for index, data in enumerate(units)]
        self._end = end
        self.num_dropped = 0
        self.num_key_requests = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[Unit]:
        for unit in self._units:
            yield unit
        if isinstance(self._end, Exception):
            raise self._end
        if not self._end:
            await asyncio.Event().wait()

    def request_key_frame(self) -> None:
        self.num_key_requests += 1

    async def close(self) -> None:
        self.closed = True

    async def opened(self) -> ScriptedUnits:
        """As open_whep: a coroutine that gives the session."""
        return self
