"""Ending a connection that libav has open: it offers no way, and a peer that only stops reading blocks it.

The kernel tells which sockets this process holds; ``shutdown`` wakes whoever is blocked in one, and libav
then fails as it does when the peer goes away.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

_OPEN = Path("/proc/self/fd")


def open_sockets() -> frozenset[int]:
    """Inode numbers of all sockets that this process holds."""
    found = set()
    for entry in _entries():
        with suppress(OSError):
            status = os.fstat(entry)
            if stat.S_ISSOCK(status.st_mode):
                found.add(status.st_ino)
    return frozenset(found)


def cut_new_connections(before: frozenset[int], port: int) -> int:
    """Shut down TCP connections to a peer's ``port`` that are not in ``before``; returns how many."""
    count = 0
    for entry in _entries():
        with suppress(OSError):
            status = os.fstat(entry)
            if not stat.S_ISSOCK(status.st_mode) or status.st_ino in before:
                continue
            with socket.socket(fileno=os.dup(entry)) as connection:
                if connection.type == socket.SOCK_STREAM and _peer_port(connection) == port:
                    connection.shutdown(socket.SHUT_RDWR)
                    count += 1
    return count


def _peer_port(connection: socket.socket) -> int | None:
    name = connection.getpeername()
    return name[1] if isinstance(name, tuple) else None


def _entries() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(_OPEN) if name.isdigit()]  # noqa: PTH208  # names only
    return []
