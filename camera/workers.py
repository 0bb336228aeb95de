"""Threads of one job: the first failure is kept, later ones are its consequences."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Workers:
    """Runs functions in daemon threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    @property
    def error(self) -> BaseException | None:
        """The first failure."""
        return self._error

    def start(self, name: str, run: Callable[[], None]) -> None:
        """Start one thread."""
        thread = threading.Thread(target=self._guarded, args=(run,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for all; True when all are gone."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _guarded(self, run: Callable[[], None]) -> None:
        # Everything is caught: a stage must not die in silence while the others wait for it.
        try:
            run()
        except BaseException as error:
            with self._lock:
                first, self._error = self._error is None, self._error or error
            log = logger.error if first else logger.debug
            log("%s failed: %s: %s", threading.current_thread().name, type(error).__name__, error)
