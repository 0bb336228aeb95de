"""A network cable that is pulled and put back, and what a process holds before and after."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_BLOCK = 65536


class Cable:
    """Forwards TCP connections to one server on this machine, until ``cut``; ``restore`` opens the same port.

    ``freeze`` keeps the connections and lets nothing through: what a server that hangs looks like.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._flows = threading.Event()
        self._threads: list[threading.Thread] = []
        self.port = 0
        self.restore()

    def restore(self) -> None:
        """Take connections, on the same port as before, and let everything through."""
        self._flows.set()
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self.port = int(self._listener.getsockname()[1])
            self._start(self._accept, self._listener)

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept
            listener.close()
        self._flows.set()
        with self._lock:
            for end in self._sockets:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """Let nothing through; new connections are taken and hear nothing."""
        self._flows.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def _start(self, run: object, *arguments: object) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=run, args=arguments, name="test-cable", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                if listener.fileno() < 0 or self._listener is not listener:
                    return
                continue
            with self._lock:
                self._sockets |= {near, far}
            self._start(self._pump, near, far)
            self._start(self._pump, far, near)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_BLOCK):
                self._flows.wait()
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._sockets.discard(source)
        source.close()


@dataclass(frozen=True, slots=True)
class Held:
    """What this process holds at one moment."""

    descriptors: int
    threads: int
    children: int

    @classmethod
    def now(cls) -> Held:
        """Count."""
        children = "".join(
            path.read_text() for path in Path("/proc/self/task").glob("*/children") if path.exists()
        )
        return cls(
            sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1,
            threading.active_count(),
            len(children.split()),
        )

    def more_than(self, before: Held) -> dict[str, int]:
        """What has grown since ``before``, by name; empty when nothing has."""
        pairs = {
            "descriptors": (self.descriptors, before.descriptors),
            "threads": (self.threads, before.threads),
            "children": (self.children, before.children),
        }
        return {name: now - then for name, (now, then) in pairs.items() if now > then}
