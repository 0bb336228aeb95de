"""A WHEP client that receives a camera's access units as they were encoded, without decoding them.

One session, one video track, H.264 only. Units wait in a bounded queue; when the reader is too slow the queue
is emptied and it goes on with the next key frame, so memory and delay stay bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription
from aiortc.jitterbuffer import JitterFrame

from analytics.encoded_queue import ask_for_key_frame, take_encoded
from analytics.encoded_unit import EncodedUnit, UnitQueue, has_key_picture
from analytics.loopback_ice import allow_loopback
from analytics.sdp_exchange import RefusedError, SdpExchange
from analytics.urls import shown_url
from base.errors import PeerError, UsageError

__all__ = [
    "ClientOptions",
    "EncodedUnit",
    "RefusedError",
    "WhepStream",
    "has_key_picture",
    "open_whep",
]

logger = logging.getLogger(__name__)

Layer = Literal["protected", "sealed"]

CONNECT_TIMEOUT_S = 15.0
SILENCE_TIMEOUT_S = 15.0
RTP_CLOCK_HZ = 90_000


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Limits of one session."""

    layer: Layer = "protected"  # "sealed" asks the camera to leave the sealed layer's SEI in
    max_units: int = 256
    max_bytes: int = 16 * 1024 * 1024
    rendition: Literal["auto", "main", "sub"] = "auto"


async def open_whep(
    url: str, *, token: str | None = None, options: ClientOptions | None = None
) -> WhepStream:
    """Open a session and return it once it is connected.

    Args:
        url: the camera's WHEP endpoint, http or https.
        token: bearer token, when the camera asks for one.
        options: limits and layer.

    Raises:
        UsageError: not an http(s) URL.
        PeerError: the camera refuses, does not answer, or no media path comes up.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        message = f"WHEP URL: expected http or https, got {urlsplit(url).scheme!r}"
        raise UsageError(message)
    stream = WhepStream(url, token, options or ClientOptions())
    try:
        await stream._open()
    except BaseException:
        await stream.close()
        raise
    return stream


class WhepStream:
    """A connected session: iterate over its units, once; ``close`` (or ``async with``) ends it."""

    def __init__(self, url: str, token: str | None, options: ClientOptions) -> None:
        self._url = url
        self._options = options
        self._exchange = SdpExchange(url, token)
        allow_loopback()
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._peer.on("connectionstatechange", self._state_changed)
        self._receiver: RTCRtpReceiver | None = None
        self._changed = asyncio.Event()
        self._connected = asyncio.Event()
        self._queue = UnitQueue(options.max_units, options.max_bytes)
        self._ended = False

    @property
    def num_dropped(self) -> int:
        """Units lost so far because they were not taken in time, or came before the first key frame."""
        return self._queue.num_dropped

    async def __aiter__(self) -> AsyncIterator[EncodedUnit]:
        """Units from a key frame on, until the session ends.

        Raises:
            PeerError: nothing arrives for 15 s.
        """
        while True:
            self._changed.clear()
            while (unit := self._queue.pop()) is not None:
                yield unit
            if self._ended:
                return
            try:
                async with asyncio.timeout(SILENCE_TIMEOUT_S):
                    await self._changed.wait()
            except TimeoutError as error:
                message = f"{shown_url(self._url)}: no picture for {SILENCE_TIMEOUT_S:.0f} s"
                raise PeerError(message) from error

    def request_key_frame(self) -> None:
        """Ask the camera for a key frame (a decoder lost its way)."""
        if self._receiver is not None:
            ask_for_key_frame(self._receiver)

    async def close(self) -> None:
        """End the session at the camera, then free the sockets; harmless when repeated."""
        self._end()
        await self._exchange.close()
        await self._peer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _open(self) -> None:
        transceiver = self._peer.addTransceiver("video", direction="recvonly")
        codecs = RTCRtpReceiver.getCapabilities("video")
        wanted = (
            [codec for codec in codecs.codecs if codec.mimeType in ("video/H264", "video/rtx")]
            if codecs
            else []
        )
        transceiver.setCodecPreferences(wanted)
        self._receiver = transceiver.receiver
        take_encoded(transceiver.receiver, self._arrived)
        await self._peer.setLocalDescription(await self._peer.createOffer())
        answer = await self._exchange.post(self._peer.localDescription.sdp, self._parameters())
        try:
            await self._peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        except Exception as error:  # aiortc names no error type for a bad answer
            message = f"{shown_url(self._url)}: the answer cannot be used: {type(error).__name__}"
            raise PeerError(message) from error
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._connected.wait()
        except TimeoutError as error:
            message = (
                f"{shown_url(self._url)}: no media path within {CONNECT_TIMEOUT_S:.0f} s (is UDP blocked?)"
            )
            raise PeerError(message) from error
        if self._ended:
            message = f"{shown_url(self._url)}: the media connection failed"
            raise PeerError(message)

    def _parameters(self) -> dict[str, str]:
        """What differs from the endpoint's defaults."""
        wanted = {"layer": self._options.layer, "rendition": self._options.rendition}
        return {name: value for name, value in wanted.items() if value not in ("protected", "auto")}

    def _arrived(self, frame: JitterFrame) -> None:
        if self._queue.put(frame.data, frame.timestamp * 1_000_000 // RTP_CLOCK_HZ):
            self.request_key_frame()
        self._changed.set()

    def _state_changed(self) -> None:
        state = self._peer.connectionState
        logger.debug("WHEP session: %s", state)
        if state == "connected":
            self._connected.set()
        elif state in {"failed", "closed"}:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._connected.set()
        self._changed.set()
