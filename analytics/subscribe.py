"""The subscriber's library: ``async for unit in subscribe(url)`` over WHEP, RTSP, SRT and UDP.

Units come as the camera encoded them, SEI included: to be recorded without transcoding, verified, opened by
whoever holds a key, or decoded for a detector. A stream that breaks off is opened again for ever, with
growing pauses; what can never succeed (a wrong token, no such stream) ends the iteration with its reason.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self
from urllib.parse import urlsplit

from analytics.encoded_unit import EncodedUnit
from analytics.urls import shown_url
from base.errors import PeerError, UsageError

logger = logging.getLogger(__name__)

Layer = Literal["protected", "sealed"]

_WHEP = {"whep": "http", "wheps": "https", "http": "http", "https": "https"}
_MAX_CONNECT_S = 30.0


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """How a stream is received."""

    layer: Layer = "protected"  # "sealed" asks a camera's WHEP endpoint to leave the sealed layer in
    rendition: Literal["auto", "main", "sub"] = "auto"  # WHEP only: "auto" follows loss and round trips
    max_units: int = 256  # units that wait for the reader; then all are dropped up to a key frame
    max_bytes: int = 16 * 1024 * 1024
    reconnect: bool = True
    first_pause_s: float = 0.5  # before the second attempt; doubles up to max_pause_s, with jitter
    max_pause_s: float = 10.0


class _Stream(Protocol):
    """One connection, over whatever protocol."""

    @property
    def num_dropped(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[EncodedUnit]: ...

    def request_key_frame(self) -> None: ...

    async def close(self) -> None: ...


class Subscription:
    """A stream that is received until its reader stops: iterate once; ``async with`` ends it at once.

    Attributes:
        num_reconnects: how often it was opened again.
        num_dropped: units that were not taken in time.
    """

    def __init__(self, url: str, token: str | None, options: SubscribeOptions) -> None:
        self.num_reconnects = 0
        self._url = url
        self._token = token
        self._options = options
        self._stream: _Stream | None = None
        self._dropped_before = 0
        self._last_us = -1
        self._last_s = 0.0
        self._closed = asyncio.Event()

    @property
    def num_dropped(self) -> int:
        """Units lost so far because they were not taken in time."""
        return self._dropped_before + (self._stream.num_dropped if self._stream is not None else 0)

    def request_key_frame(self) -> None:
        """Ask the sender for a key frame, where the protocol can."""
        if self._stream is not None:
            self._stream.request_key_frame()

    async def __aiter__(self) -> AsyncIterator[EncodedUnit]:
        """Units from a key frame on, for ever; until the stream ends without ``reconnect``.

        Raises:
            PeerError: the stream cannot be had; with ``reconnect`` only for reasons that will not pass.
            UsageError: a URL that nobody understands.
        """
        pause_s = self._options.first_pause_s
        while not self._closed.is_set():
            num_units = 0
            try:
                async for unit in self._session():
                    num_units += 1
                    yield unit
            except PeerError as error:
                if not self._options.reconnect or getattr(error, "is_final", False):
                    raise
                logger.warning("%s; trying again", error)
            if not self._options.reconnect or self._closed.is_set():
                return
            pause_s = (
                self._options.first_pause_s if num_units else min(2 * pause_s, self._options.max_pause_s)
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s * random.uniform(0.5, 1.0)):
                    await self._closed.wait()
            self.num_reconnects += 1

    async def close(self) -> None:
        """End the stream; an iteration that waits ends too. Harmless when repeated."""
        self._closed.set()
        stream, self._stream = self._stream, None
        if stream is not None:
            self._dropped_before += stream.num_dropped
            await stream.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _session(self) -> AsyncIterator[EncodedUnit]:
        """Units of one connection, moved so that times go on rising."""
        try:
            async with asyncio.timeout(_MAX_CONNECT_S):
                self._stream = stream = await _open(self._url, self._token, self._options)
        except TimeoutError as error:
            message = f"{shown_url(self._url)}: not open after {_MAX_CONNECT_S:.0f} s"
            raise PeerError(message) from error
        try:
            offset_us: int | None = None
            async for unit in stream:
                is_first = offset_us is None
                if offset_us is None:
                    offset_us = self._next_start_us() - unit.pts_us
                pts_us = max(unit.pts_us + offset_us, self._last_us + 1)
                gap = unit.discontinuity or (is_first and self._last_us >= 0)
                self._last_us, self._last_s = pts_us, time.monotonic()
                yield EncodedUnit(unit.data, pts_us, unit.is_keyframe, gap)
        finally:
            if self._stream is stream:
                self._stream = None
                self._dropped_before += stream.num_dropped
                await stream.close()

    def _next_start_us(self) -> int:
        """Where a new connection's first unit goes: as much later as time has passed."""
        if self._last_us < 0:
            return 0
        return self._last_us + max(1, round((time.monotonic() - self._last_s) * 1e6))


def subscribe(url: str, *, token: str | None = None, options: SubscribeOptions | None = None) -> Subscription:
    """Receive a protected stream as it was encoded.

    Args:
        url: a WHEP endpoint (``http``, ``https``, ``whep``, ``wheps``), or ``rtsp``, ``rtsps``, ``srt``,
            ``udp``, ``rtp``.
        token: bearer token for WHEP; RTSP takes user and password out of the URL.
        options: layer, bounds, reconnecting.

    Raises:
        UsageError: another scheme.
    """
    scheme = urlsplit(url).scheme.lower()
    if scheme not in _WHEP and scheme not in ("rtsp", "rtsps", "srt", "udp", "rtp"):
        message = f"URL {shown_url(url)}: expected http(s), whep(s), rtsp(s), srt, udp or rtp"
        raise UsageError(message)
    return Subscription(url, token, options or SubscribeOptions())


async def _open(url: str, token: str | None, options: SubscribeOptions) -> _Stream:
    scheme, separator, rest = url.partition("://")
    if scheme.lower() in _WHEP:
        from analytics.whep_client import ClientOptions, open_whep  # noqa: PLC0415  # aiortc only where used

        client = ClientOptions(options.layer, options.max_units, options.max_bytes, options.rendition)
        return await open_whep(_WHEP[scheme.lower()] + separator + rest, token=token, options=client)
    from analytics.pull_stream import open_pull  # noqa: PLC0415

    shown = shown_url(url)
    return await open_pull(url, shown=shown, max_units=options.max_units, max_bytes=options.max_bytes)
