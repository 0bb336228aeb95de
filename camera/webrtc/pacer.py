"""Spreads a picture's packets over time: aiortc sends each access unit as one burst, which overruns queues.

A token bucket per viewer in front of the transport: bursts up to 20 packets pass at once (most delta pictures
do), what is longer goes out at several times the stream's own rate, so a key frame takes some milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiortc import RTCRtpSender

from base.errors import PeerError

BURST_BYTES = 26_000
MIN_RATE_BPS = 16_000_000
_SHORTEST_S = 0.001  # a shorter sleep costs more than it spreads


class TokenBucket:
    """How long to wait before bytes may go. Pure: time comes in."""

    def __init__(self, rate_bps: float, burst_bytes: int) -> None:
        """Start full."""
        self._rate = rate_bps / 8
        self._burst = float(burst_bytes)
        self._level = float(burst_bytes)
        self._at_s: float | None = None

    def take(self, num_bytes: int, now_s: float) -> float:
        """Take ``num_bytes``; seconds until they are covered, 0 when they are."""
        if self._at_s is not None:
            self._level = min(self._burst, self._level + (now_s - self._at_s) * self._rate)
        self._at_s = now_s
        self._level -= num_bytes
        return max(0.0, -self._level / self._rate)


def pace(sender: RTCRtpSender, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Put a bucket between a sender and its transport; call once, before it sends.

    Raises:
        PeerError: another release of aiortc.
    """
    transport = sender.transport
    send = getattr(transport, "_send_rtp", None)
    if not callable(send):
        message = "aiortc has no RTCDtlsTransport._send_rtp: this release does not fit (expected 1.16)"
        raise PeerError(message)
    bucket = TokenBucket(MIN_RATE_BPS, BURST_BYTES)

    async def paced(data: bytes) -> None:
        wait_s = bucket.take(len(data), clock())
        if wait_s >= _SHORTEST_S:
            await asyncio.sleep(wait_s)
        await send(data)

    transport._send_rtp = paced  # type: ignore[method-assign]  # there is no public hook
