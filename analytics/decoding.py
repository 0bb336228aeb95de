"""Decoded pictures as arrays."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np

from analytics.interface import Image
from base.errors import MediaError

MICROSECOND = Fraction(1, 1_000_000)
MAX_PIXELS = 1 << 26  # 8192 x 8192: above, a stream asks for more memory than any camera needs


def to_bgr(picture: av.VideoFrame) -> Image:
    """A picture as uint8 BGR [H, W, 3].

    Raises:
        MediaError: larger than MAX_PIXELS, or of a format that cannot be converted.
    """
    if picture.width * picture.height > MAX_PIXELS:
        message = f"picture of {picture.width}x{picture.height}: expected at most {MAX_PIXELS} pixels"
        raise MediaError(message)
    try:
        return np.ascontiguousarray(picture.to_ndarray(format="bgr24"), np.uint8)
    except (av.FFmpegError, ValueError) as error:
        message = f"picture of format {picture.format.name}: cannot be converted to BGR: {error}"
        raise MediaError(message) from error


class UnitDecoder:
    """Decodes H.264 access units one by one, without delay for streams that do not reorder.

    A unit that cannot be decoded is counted in ``num_damaged`` and passed over, so that a lossy session goes
    on at its next key frame. Not safe for two threads at once.
    """

    def __init__(self) -> None:
        self._context = av.CodecContext.create("h264", "r")
        self._context.thread_count = 1  # frame threads would delay every picture
        self._context.flags |= av.codec.context.Flags.low_delay
        self.num_damaged = 0

    def decode(self, data: bytes, pts_us: int) -> list[tuple[float, av.VideoFrame]]:
        """The pictures that the Annex-B unit ``data`` completes, each with its time in seconds."""
        packet = av.Packet(data)
        packet.pts, packet.time_base = pts_us, MICROSECOND
        return self._decode(packet)

    def flush(self) -> list[tuple[float, av.VideoFrame]]:
        """The pictures that the decoder still holds, at the end of the stream."""
        return self._decode(None)

    def _decode(self, packet: av.Packet[av.stream.Stream] | None) -> list[tuple[float, av.VideoFrame]]:
        try:
            pictures = self._context.decode(packet)
        except (av.InvalidDataError, av.EOFError):
            self.num_damaged += 1
            return []
        return [(float((picture.pts or 0) * MICROSECOND), picture) for picture in pictures]
