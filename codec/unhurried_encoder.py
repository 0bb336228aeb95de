"""The sealed layer of a file in AV1: pictures are coded out of order, and every segment stands alone.

Coded out of order a picture in the middle is foretold from both sides, which saves a quarter of the bits and
costs delay, which only a live stream minds. A temporal unit of AV1 shows exactly one picture (AV1
specification, 7.5), so there is still one packet a picture, in the order of display.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from av.video.frame import VideoFrame

from codec.packets import SealedPacket, SealedStream
from codec.sealed_encoder import SealedEncoder


class UnhurriedEncoder:
    """One picture in, its packet up to 46 pictures later; all that went before come with a key frame."""

    def __init__(self, open_encoder: Callable[[], SealedEncoder]) -> None:
        """``open_encoder`` opens one with ``unhurried`` for every segment, always for the same pictures."""
        self._open = open_encoder
        self._encoder = open_encoder()
        self._is_fresh = True

    @property
    def stream(self) -> SealedStream:
        """What a decoder needs; the same for all segments."""
        return self._encoder.stream

    def accepts(self, picture: VideoFrame) -> bool:
        """Whether the picture has the size, format and range of the first one; else open another encoder."""
        return self._encoder.accepts(picture)

    def encode(
        self, picture: VideoFrame, force_key: bool = False, *, time_us: int | None = None
    ) -> list[SealedPacket]:
        """Code one picture without touching it; arguments and errors as of `SealedEncoder.encode`.

        Returns:
            Packets of earlier pictures in the order of these; with ``force_key`` of all of them.
        """
        before: list[SealedPacket] = []
        if force_key and not self._is_fresh:
            before = self.flush()
            self._encoder = self._open()
        self._is_fresh = False
        return before + _in_order(self._encoder.encode(picture, force_key, time_us=time_us))

    def flush(self) -> list[SealedPacket]:
        """The packets of all pictures that have none yet; a key frame has to be next."""
        return [] if self._is_fresh else _in_order(self._encoder.flush())


def _in_order(packets: list[SealedPacket]) -> list[SealedPacket]:
    """Units of AV1 are decoded in the order in which they are shown."""
    return [replace(packet, dts=packet.pts) for packet in packets]
