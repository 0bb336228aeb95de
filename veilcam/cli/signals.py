"""Ctrl-C and SIGTERM end long commands in order; a second one ends them at once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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


def stop_event() -> asyncio.Event:
    """An event of the running loop that the first signal sets; a second one has its usual effect."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        stop.set()

    with suppress(RuntimeError, ValueError):  # not on the main thread
        for number in _SIGNALS:
            loop.add_signal_handler(number, end)
    return stop


@contextmanager
def terminating_like_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM, and at SIGHUP when the terminal goes away.

    Commands then remove what they have begun; a decode would else leave a part of the original on the disk.
    Signals that are ignored (nohup) or that somebody handles already stay as they are.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
