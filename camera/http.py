"""The camera's HTTP server: page, WHEP, health, metrics and state behind one set of rules.

Every request passes ``_guard``, in this order: known origin, rate limit, token. Every response leaves with
the security headers, errors as problem details. Nothing secret is logged: the access log has no query, no
header and no session id.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.http_exceptions import HttpProcessingError

from analytics.connections import ConnectionGate
from base.errors import VeilError
from camera.access import AccessToken, ListenAddress, RateLimiter, is_loopback_host, require_safe
from camera.page import load_page
from camera.problems import problem
from camera.state import CameraView
from camera.webrtc.endpoint import ENDPOINT, SESSION, WhepEndpoint
from camera.webrtc.ice import IceServer
from camera.webrtc.ingest import ENDPOINT as INGEST
from camera.webrtc.offer import MAX_SDP_BYTES

logger = logging.getLogger(__name__)
access_logger = logging.getLogger("camera.access_log")
protocol_logger = logging.getLogger("camera.http.protocol")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})  # probes carry no token; they tell nothing worth one
CHANGING = frozenset({"POST", "PATCH", "DELETE"})
EXPOSED = "Location, ETag, Link, Accept-Post, Accept-Patch, Retry-After"
SHUTDOWN_S = 5.0
BACKLOG = 128
LINGER_S = 1.0  # how long a body that was already refused is read on

SECURITY_HEADERS = {
    "Server": "veilcam",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


class ListenError(VeilError):
    """The address cannot be bound: in use, not ours, or not allowed."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Where the server listens and for whom."""

    listen: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", 8080))
    token: AccessToken | None = None
    ingest_token: AccessToken | None = None  # for publishing to /whip; None: the token above
    ice_servers: tuple[IceServer, ...] = ()
    changes_per_s: float = 10.0  # POST, PATCH and DELETE per client address
    changes_burst: int = 60
    failures_per_s: float = 0.2  # wrong tokens per client address
    failures_burst: int = 10
    header_timeout_s: float = 10.0  # from a connection's begin or last answer to a request's complete header
    max_connections: int = 256


class ServerPart(Protocol):
    """Something that brings routes or signals of its own: recordings, events, the access log."""

    def add_to(self, app: web.Application) -> None:
        """Put them into the application; the server's rules apply to them."""


class HttpServer:
    """Serves one camera until closed."""

    def __init__(
        self, view: CameraView, options: HttpOptions | None = None, parts: Iterable[ServerPart] = ()
    ) -> None:
        """Prepare the application; nothing is bound yet.

        Args:
            view: the camera and its viewers.
            options: address, token, limits.
            parts: what is served beside them.

        Raises:
            UsageError: the address is not loopback and there is no token.
        """
        self._options = options or HttpOptions()
        require_safe(self._options.listen, self._options.token)
        self._page = load_page()
        self._changes = RateLimiter(self._options.changes_per_s, self._options.changes_burst)
        self._failures = RateLimiter(self._options.failures_per_s, self._options.failures_burst)
        self.app = web.Application(client_max_size=MAX_SDP_BYTES, middlewares=[self._guard])
        self.app.on_response_prepare.append(self._add_headers)
        for path in self._page:
            self.app.router.add_get(path, self._page_file)
        view.add_routes(self.app.router)
        WhepEndpoint(view.viewers, self._options.ice_servers).add_routes(self.app.router)
        for part in parts:
            part.add_to(self.app)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._port = self._options.listen.port

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            ListenError: the address cannot be bound.
        """
        self._runner = web.AppRunner(
            self.app,
            access_log=access_logger,
            access_log_class=AccessLogger,
            logger=protocol_logger,
            keepalive_timeout=self._options.header_timeout_s,
            lingering_time=LINGER_S,
            shutdown_timeout=SHUTDOWN_S,
        )
        await self._runner.setup()
        try:
            self._listener = await self._bind(self._runner)
        except OSError as error:
            await self.close()
            listen = self._options.listen
            message = f"cannot listen on {listen.host} port {listen.port}: {os.strerror(error.errno or 0)}"
            raise ListenError(message) from error
        self._port = int(self._listener.sockets[0].getsockname()[1])

    async def _bind(self, runner: web.AppRunner) -> asyncio.Server:
        """As `web.TCPSite` does, with the gate in front."""
        assert runner.server is not None  # noqa: S101  # set up; for the type checker
        gate = ConnectionGate(runner.server, self._options.max_connections)
        listen = self._options.listen
        loop = asyncio.get_running_loop()
        return await loop.create_server(gate, listen.host, listen.port, backlog=BACKLOG)

    @property
    def url(self) -> str:
        """Base URL, with the real port once started."""
        return self._options.listen.url(self._port)

    async def close(self) -> None:
        """Stop serving; waits at most 5 s for open requests."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._refuse(request)
        if refusal is not None:
            return refusal
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _as_problem(error)
        except web.RequestPayloadError:
            return problem(400, "the body is not what its header says", code="bad-body")

    def _refuse(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Content-Encoding", "identity") != "identity":  # nobody needs it; bombs do
            return problem(
                415,
                "bodies are taken as they are, without Content-Encoding",
                code="content-encoding",
                headers={"Accept-Encoding": "identity"},
            )
        if request.path.startswith(INGEST):
            return self._refuse_ingest(request)
        if self._options.token is None and not _is_own_page(request):
            return problem(
                403,
                "this camera has no token and therefore answers its own page on this machine only",
                hint="Start it with a token to use it from elsewhere.",
                code="foreign-origin",
            )
        client = request.remote or "?"
        if request.method in CHANGING and not self._changes.allow(client):
            return problem(429, "too many requests", code="rate", headers={"Retry-After": "5"})
        if self._options.token is None or self._is_open(request):
            return None
        return self._check_token(request, client, self._options.token)

    def _refuse_ingest(self, request: web.Request) -> web.Response | None:
        """Who publishes writes, so nobody does without a token, from this machine neither."""
        token = self._options.ingest_token or self._options.token
        client = request.remote or "?"
        if request.method in CHANGING and not self._changes.allow(client):
            return problem(429, "too many requests", code="rate", headers={"Retry-After": "5"})
        if request.method == "OPTIONS":
            return None
        if token is None:
            return problem(
                403,
                "publishing to this camera needs a token, and it was started without one",
                hint="Give it a token file for publishing (http.ingest_token_file).",
                code="no-ingest-token",
            )
        return self._check_token(request, client, token)

    def _is_open(self, request: web.Request) -> bool:
        """Preflights carry no credentials; the page's own files and the probes need none."""
        return request.method == "OPTIONS" or request.path in OPEN_PATHS or request.path in self._page

    def _check_token(self, request: web.Request, client: str, token: AccessToken) -> web.Response | None:
        if self._failures.level(client) < 1.0:
            return problem(429, "too many wrong tokens", code="rate", headers={"Retry-After": "10"})
        scheme, _, candidate = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.matches(candidate.strip()):
            return None
        if candidate:
            self._failures.allow(client)
        return problem(
            401,
            "a token is needed" if not candidate else "the token is wrong",
            hint="Send Authorization: Bearer TOKEN with the token that the camera was started with.",
            code="token",
            headers={"WWW-Authenticate": 'Bearer realm="veilcam"'},
        )

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(SECURITY_HEADERS)
        open_paths: tuple[str, ...] = ()
        if self._options.token is not None:
            open_paths = (ENDPOINT, "/api/")
        if self._options.ingest_token is not None or self._options.token is not None:
            open_paths += (INGEST,)
        if not request.path.startswith(open_paths):
            return
        response.headers["Access-Control-Allow-Origin"] = "*"
        response.headers["Access-Control-Expose-Headers"] = EXPOSED
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Methods"] = "OPTIONS, GET, HEAD, POST, PATCH, DELETE"
            response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, If-Match"
            response.headers["Access-Control-Max-Age"] = "600"

    async def _page_file(self, request: web.Request) -> web.Response:
        file = self._page[request.path]
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == file.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.data, content_type=file.content_type, charset="utf-8", headers=headers)


class _NoBadRequests(logging.Filter):
    """What is no HTTP, or breaks off, gets no line: aiohttp would log it, and there may be a token in it."""

    _THEIRS = (HttpProcessingError, web.RequestPayloadError, ConnectionError)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it."""
        return not (record.exc_info and isinstance(record.exc_info[1], self._THEIRS))


protocol_logger.addFilter(_NoBadRequests())


class AccessLogger(AbstractAccessLogger):
    """One line per request without anything secret: no query, no headers, no session ids."""

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        """Write the line."""
        self.logger.info(
            "%s %s %s %d %.1f ms",
            request.remote,
            request.method,
            redact_path(request.rel_url.raw_path),
            response.status,
            time * 1000,
        )


def redact_path(raw_path: str) -> str:
    """The still encoded path, without a session id and at most 100 characters long."""
    for session in (SESSION, INGEST + "/session/"):
        if raw_path.startswith(session):
            return session + "*"
    return raw_path[:100]


def _is_own_page(request: web.Request) -> bool:
    host = request.url.host or ""
    origin = request.headers.get("Origin")
    same = origin is None or origin == f"{request.scheme}://{request.host}"
    return is_loopback_host(host) and same


def _as_problem(error: web.HTTPException) -> web.StreamResponse:
    """Aiohttp's own 404, 405, 408, 413 and so on, as problem details."""
    if error.status < 400:
        raise error
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return problem(error.status, error.reason.lower(), headers=headers)
