"""Who counts as a camera when turns are shared out: a name is believed per client, and only so many names."""

from __future__ import annotations

from collections import OrderedDict

MAX_CLIENTS = 1024
"""Clients whose names are known; the one that asked least recently is forgotten."""
FORGET_S = 60.0
"""A name that was not used for so long makes room for another one."""
Camera = tuple[str, str]
"""Client and name."""
_OTHERS = "\n"  # no name: what is above the bound shares one turn


class CameraNames:
    """Names of cameras by the client (address) that uses them. No clock, no threads.

    The client belongs to the name, so that nobody can use up another one's places in the queue. Of one
    client's names ``max_names`` have turns of their own and all others share one: somebody who invents a name
    for every request gets no more than that.
    """

    def __init__(self, max_names: int) -> None:
        self._max_names = max_names
        self._used_s: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()

    def camera(self, client: str, name: str, now_s: float) -> Camera:
        """Whose turn this request takes."""
        names = self._used_s.setdefault(client, OrderedDict())
        self._used_s.move_to_end(client)
        if len(self._used_s) > MAX_CLIENTS:
            self._used_s.popitem(last=False)
        if name not in names and len(names) >= self._max_names:
            oldest = next(iter(names))
            if now_s - names[oldest] < FORGET_S:
                return client, _OTHERS
            del names[oldest]
        names[name] = now_s
        names.move_to_end(name)
        return client, name
