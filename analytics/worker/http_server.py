"""RestApi behind aiohttp: bounded bodies and headers, no client can hold a connection for nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from dataclasses import dataclass

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from analytics.connections import ConnectionGate
from analytics.worker.rest_api import Reply, RestApi, too_busy
from base.access import ListenAddress
from base.errors import PeerError

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 128
MAX_PER_ADDRESS = 64
"""So that one machine alone cannot hold all of them."""
MAX_BYTES_IN = 256 << 20
"""Of all bodies that are being received or waited for; one more is refused."""
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client may take.

    Attributes:
        header_s: from a connection's begin or last answer to a request's complete header.
        body_s: for the body behind it.
        handshake_s: of TLS.
    """

    header_s: float = 10.0
    body_s: float = 20.0
    handshake_s: float = 10.0


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Lines that are no HTTP are answered 400; in the log they would be traces that strangers can write."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


logger.addFilter(_is_our_fault)


class WorkerHttp:
    """Serves one RestApi until closed."""

    def __init__(
        self,
        api: RestApi,
        listen: ListenAddress,
        tls: ssl.SSLContext | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Prepare; nothing is bound yet."""
        self._api = api
        self._listen = listen
        self._tls = tls
        self._patience = patience or Patience()
        self._port = listen.port
        self._bytes_in = 0
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Base URL, with the real port once started."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self._listen.netloc(self._port)}"

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            PeerError: the address cannot be bound.
        """
        app = web.Application(client_max_size=self._api.limits.body_bytes)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_response_prepare.append(_add_headers)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=logger,
            keepalive_timeout=self._patience.header_s,
            lingering_time=1.0,
            shutdown_timeout=1.0,
            handler_cancellation=True,  # a caller that goes away frees its place in the queue
        )
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101  # set up; for the type checker
        gate = ConnectionGate(self._runner.server, MAX_CONNECTIONS, MAX_PER_ADDRESS)
        timeout_s = self._patience.handshake_s if self._tls is not None else None
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                gate,
                self._listen.host,
                self._listen.port,
                backlog=_BACKLOG,
                ssl=self._tls,
                ssl_handshake_timeout=timeout_s,
            )
        except OSError as error:
            await self.close()
            message = f"cannot listen on {self._listen.netloc()}: {os.strerror(error.errno or 0)}"
            raise PeerError(message) from error
        self._port = int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop serving; open requests have a second to end."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.Response:
        path, peer = request.rel_url.raw_path, request.remote or ""
        refusal = self._api.refuse(request.method, path, request.headers, peer)
        if refusal is not None:
            return _response(refusal, close=request.method == "POST")
        expected = request.content_length or 0
        if self._bytes_in + expected > MAX_BYTES_IN:
            return _response(too_busy(), close=True)
        self._bytes_in += expected
        try:
            async with asyncio.timeout(self._patience.body_s):
                body = await request.read()
            return _response(await self._api.reply(request.method, path, request.headers, body, peer))
        except TimeoutError:
            return _response(Reply(408, b'{"error": "the body came too slowly"}'), close=True)
        finally:
            self._bytes_in -= expected


def _response(reply: Reply, *, close: bool = False) -> web.Response:
    response = web.Response(
        status=reply.status,
        body=reply.body,
        headers={"Content-Type": reply.content_type, **reply.headers},
    )
    if close:
        response.force_close()  # its body was not read
    return response


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "veilcam-worker"
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
