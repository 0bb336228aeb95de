"""Ctrl-C and SIGTERM end long commands in order; a second one ends them at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ending_in_order(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at the first signal; raise KeyboardInterrupt at the second.

    ``stop`` runs inside a signal handler: it may set an event or close a stream, and must not block.
    """
    asked = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
