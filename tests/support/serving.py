"""A camera's HTTP server on a free loopback port, for tests that are its clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from camera.access import AccessToken, ListenAddress
from camera.health import RecorderState
from camera.http import HttpOptions, HttpServer, ServerPart
from camera.state import CameraView
from camera.webrtc.ice import IceServer
from camera.webrtc.track import TrackOptions
from camera.webrtc.viewers import LiveCamera, Viewers

TOKEN = "correct horse battery".replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Serving:
    """What a test needs of the server."""

    url: str
    viewers: Viewers
    http: aiohttp.ClientSession
    bearer: dict[str, str] = field(default_factory=dict)

    @property
    def whep(self) -> str:
        """The WHEP endpoint."""
        return self.url + "/whep"


@asynccontextmanager
async def serving(
    camera: LiveCamera,
    *,
    token: str | None = None,
    max_viewers: int = 16,
    burst: int = 60,
    options: TrackOptions | None = None,
    recorder: Callable[[], RecorderState | None] = lambda: None,
    header_timeout_s: float = 10.0,
    max_connections: int = 256,
    port: int = 0,
    ingest_token: str | None = None,
    ice_servers: tuple[IceServer, ...] = (),
    parts: Iterable[ServerPart] = (),
) -> AsyncIterator[Serving]:
    """Serve ``camera`` until the block ends; then everything is closed."""
    viewers = Viewers(camera, max_viewers=max_viewers, options=options, ice_servers=ice_servers)
    http_options = HttpOptions(
        listen=ListenAddress("127.0.0.1", port),
        token=AccessToken(token) if token else None,
        changes_burst=burst,
        header_timeout_s=header_timeout_s,
        max_connections=max_connections,
        ingest_token=AccessToken(ingest_token) if ingest_token else None,
        ice_servers=ice_servers,
    )
    server = HttpServer(CameraView("yard", camera, viewers, recorder), http_options, parts)
    await server.start()
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with aiohttp.ClientSession() as http:
            yield Serving(server.url, viewers, http, bearer)
    finally:
        await viewers.close()
        await server.close()
