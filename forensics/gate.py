"""Lets through the packets that decode to what the camera saw, and holds back those that cannot.

A coded picture that refers to one that is lost decodes into something the camera never saw. So
after a loss the packets of a video stream wait for the next key frame. Sound and other packets
stand alone. Nothing is held back from a recording without loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codec.packets import SealedPacket, SealedStream, StreamKind


class PacketGate:
    """Sees the packets of all opened segments in order; remembers which video streams may go on.

    Attributes:
        num_held_back: packets that did not pass.
    """

    def __init__(self, streams: Sequence[SealedStream]) -> None:
        self._video = frozenset(stream.index for stream in streams if stream.kind is StreamKind.VIDEO)
        self._open = set(self._video)
        self.num_held_back = 0

    def lose(self) -> None:
        """Note that something is missing here."""
        self._open.clear()

    def pass_segment(
        self, packets: Sequence[SealedPacket], num_intact: int, *, is_complete: bool
    ) -> Iterator[SealedPacket]:
        """Yield the packets of one segment that may be used.

        Args:
            packets: what was opened.
            num_intact: how many of them precede the first hole.
            is_complete: there is no hole, not even at the end.
        """
        for packet in packets[:num_intact]:
            if packet.stream_index in self._video and packet.is_key:
                self._open.add(packet.stream_index)
            yield from self._filter(packet)
        if not is_complete:
            self.lose()
        for packet in packets[num_intact:]:
            # A second hole would not show, so a key frame passes here without opening the gate.
            yield from self._filter(packet)

    def _filter(self, packet: SealedPacket) -> Iterator[SealedPacket]:
        is_video = packet.stream_index in self._video
        if not is_video or packet.is_key or packet.stream_index in self._open:
            yield packet
        else:
            self.num_held_back += 1
