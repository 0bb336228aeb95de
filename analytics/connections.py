"""A bound on the connections that are open at a time, of all and of one address; one more is answered 503."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web

logger = logging.getLogger(__name__)

REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nServer: veilcam\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)
LINGER_S = 1.0  # closed at once, a request still on its way would reset the answer's way
MAX_LINGERING = 32  # above it the answer is left out


class ConnectionGate:
    """Makes the protocol of each new connection; use as factory of ``loop.create_server``."""

    def __init__(self, server: web.Server, max_connections: int, max_per_address: int | None = None) -> None:
        """Let at most ``max_connections`` through to ``server``, of one address fewer if told so."""
        self._server = server
        self._max_connections = max_connections
        self._max_per_address = max_per_address or max_connections
        self._num_lingering = 0
        self._has_warned = False

    def __call__(self) -> asyncio.Protocol:
        """The protocol of one connection, which has not begun yet."""
        return _Entrance(self)

    def admit(self, transport: asyncio.Transport) -> None:
        """Give a connection that begins to the server, or refuse it."""
        if self._has_room_for(transport):
            handler = self._server()
            transport.set_protocol(handler)
            handler.connection_made(transport)
            return
        if not self._has_warned:
            self._has_warned = True
            logger.warning("too many connections: new ones are refused")
        if self._num_lingering >= MAX_LINGERING:
            transport.abort()
            return
        self._num_lingering += 1
        transport.set_protocol(_Refused(self._end_lingering))
        transport.write(REFUSAL)
        asyncio.get_running_loop().call_later(LINGER_S, transport.abort)

    def _has_room_for(self, transport: asyncio.Transport) -> bool:
        num_open = len(self._server.connections)
        if num_open < self._max_per_address or self._max_per_address >= self._max_connections:
            return num_open < self._max_connections
        address = _address(transport)
        of_it = sum(_address(handler.transport) == address for handler in self._server.connections)
        return num_open < self._max_connections and of_it < self._max_per_address

    def _end_lingering(self) -> None:
        self._num_lingering -= 1


def _address(transport: asyncio.BaseTransport | None) -> str | None:
    peer = None if transport is None else transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else None


class _Entrance(asyncio.Protocol):
    """Decides when the connection begins: only then is the number of open ones exact."""

    def __init__(self, gate: ConnectionGate) -> None:
        self._gate = gate

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # TCP; for the type checker
        self._gate.admit(transport)


class _Refused(asyncio.Protocol):
    """Ignores what comes until the client or the deadline closes."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()
