"""Shows a lifted stream on this machine: a page and a fragmented MP4 that goes on, under a secret path.

Listens on 127.0.0.1 only, keeps nothing, and answers nobody who does not know the path: other users of the
machine and pages in the same browser do not. A viewer that is too slow is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import replace

import av
from aiohttp import web
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream

from base.errors import MediaError, UsageError
from codec.muxer import add_stream
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.unseal import OpenedSegment

MAX_CHUNKS = 64  # waiting for one viewer; more than that and he is cut off
MAX_VIEWERS = 8
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; media-src 'self'; style-src 'self'",
}
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>veilcam: lifted</title>
<link rel="stylesheet" href="style.css">
<h1>Original, lifted</h1>
<p>Only on this machine, until the lift ends. The opening is in the ledger.</p>
<video src="live.mp4" autoplay muted controls playsinline></video>
"""
_STYLE = "body{margin:1rem;font:1rem system-ui;color-scheme:light dark}video{max-width:100%}"
_MP4 = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "200000"}


class Fragments:
    """A fragmented MP4 of one video stream that is written as it goes."""

    def __init__(self, stream: SealedStream) -> None:
        """Write the head.

        Raises:
            MediaError: MP4 cannot hold the codec.
        """
        self._stream = stream
        self._pending: list[bytes] = []
        self._first_dts: int | None = None
        try:
            self._container: OutputContainer = av.open(self, "w", format="mp4", container_options=_MP4)
            self._track = add_stream(self._container, replace(stream, index=0))
            self._container.start_encoding()
        except (av.FFmpegError, UsageError, ValueError) as error:
            message = f"lift: the original's codec {stream.codec} cannot be shown: {error}"
            raise MediaError(message) from error

    def write(self, data: bytes) -> int:
        """Called by libav."""
        self._pending.append(bytes(data))
        return len(data)

    def add(self, packets: list[SealedPacket]) -> bytes:
        """Mux packets; what is ready to be sent."""
        for packet in packets:
            dts = packet.dts if packet.dts is not None else packet.pts
            if dts is None:
                continue
            self._first_dts = dts if self._first_dts is None else self._first_dts
            coded: Packet[Stream] = Packet(packet.data)
            coded.stream = self._track
            coded.time_base = self._stream.time_base
            coded.dts = dts - self._first_dts
            coded.pts = (packet.pts if packet.pts is not None else dts) - self._first_dts
            coded.is_keyframe = packet.is_key
            self._container.mux_one(coded)
        return self.take()

    def take(self) -> bytes:
        """Bytes since the last call."""
        data, self._pending = b"".join(self._pending), []
        return data

    def close(self) -> None:
        """Free libav's side."""
        with contextlib.suppress(av.FFmpegError, ValueError):
            self._container.close()


class LiftServer:
    """Serves opened segments to players on this machine."""

    def __init__(self, port: int = 0) -> None:
        """Prepare; nothing is bound yet."""
        self.secret = secrets.token_urlsafe(24)
        self.num_served = 0
        self._port = port
        self._queues: set[asyncio.Queue[OpenedSegment | None]] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The page, with its secret."""
        return f"http://127.0.0.1:{self._port}/{self.secret}/"

    async def start(self) -> None:
        """Bind to 127.0.0.1.

        Raises:
            OSError: the port is in use.
        """
        app = web.Application()
        app.router.add_get(f"/{self.secret}/", self._page)
        app.router.add_get(f"/{self.secret}/style.css", self._style)
        app.router.add_get(f"/{self.secret}/live.mp4", self._live)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])

    async def show(self, opened: OpenedSegment) -> None:
        """Hand a segment to every viewer."""
        for queue in tuple(self._queues):
            try:
                queue.put_nowait(opened)
            except asyncio.QueueFull:
                self._queues.discard(queue)

    async def close(self) -> None:
        """End every viewer's stream and free the port."""
        for queue in tuple(self._queues):
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(None)
        self._queues.clear()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _page(self, request: web.Request) -> web.Response:
        _check_host(request)
        return web.Response(text=_PAGE, content_type="text/html", headers=_HEADERS)

    async def _style(self, request: web.Request) -> web.Response:
        _check_host(request)
        return web.Response(text=_STYLE, content_type="text/css", headers=_HEADERS)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        _check_host(request)
        if len(self._queues) >= MAX_VIEWERS:
            raise web.HTTPServiceUnavailable
        queue: asyncio.Queue[OpenedSegment | None] = asyncio.Queue(MAX_CHUNKS)
        self._queues.add(queue)
        response = web.StreamResponse(headers=_HEADERS | {"Content-Type": "video/mp4"})
        try:
            await response.prepare(request)
            await self._send(queue, response)
        except ConnectionError:
            pass
        finally:
            self._queues.discard(queue)
        return response

    async def _send(self, queue: asyncio.Queue[OpenedSegment | None], response: web.StreamResponse) -> None:
        fragments: Fragments | None = None
        shown: SealedStream | None = None
        try:
            while queue in self._queues and (opened := await queue.get()) is not None:
                video = next((s for s in opened.streams if s.kind is StreamKind.VIDEO), None)
                if video is None:
                    continue
                packets = [packet for packet in opened.packets if packet.stream_index == video.index]
                if fragments is None:
                    while packets and not packets[0].is_key:
                        packets.pop(0)
                    if not packets:
                        continue
                    fragments, shown = Fragments(video), video
                elif replace(video, extensions=()) != replace(shown or video, extensions=()):
                    return  # another size or codec: the player has to begin anew
                await response.write(fragments.add(packets))
                self.num_served += 1
        finally:
            if fragments is not None:
                fragments.close()


def _check_host(request: web.Request) -> None:
    """A name that merely resolves to this machine (DNS rebinding) is refused."""
    if request.host.partition(":")[0] not in ("127.0.0.1", "localhost"):
        raise web.HTTPForbidden
