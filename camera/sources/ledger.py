"""Which source packets travel with which picture.

A decoder gives a picture later than its packet (reordering, threads). If every picture took all packets
that were read by then, a segment would not start with its key packet. So a *boundary* before a packet
holds that packet and all later ones back until the picture comes that they start:

    demuxed   I0 P1 P2 a I3 P4 ...          (a: audio)
    picture 2 takes P2 a, picture 3 takes I3 ... : the boundary before I3 waits for a picture with pts >= 3

Nothing is lost or reordered: concatenating what all pictures took, and the rest, gives the demuxed order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from base.errors import MediaError

if TYPE_CHECKING:
    from codec.packets import SealedPacket, SealedStream

# A decoder holds back at most 16 reordered pictures plus one per thread; a boundary older than this is lost.
MAX_PICTURES_WAITED = 64


@dataclass(slots=True)
class _Boundary:
    position: int  # number of packets added before it, ever
    pts: int | None
    key: bool
    gap: bool = False  # a segment has to start here
    streams: tuple[SealedStream, ...] | None = None  # in force from here on
    pictures_waited: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """Packets of one picture; fields as in ``Captured``."""

    packets: tuple[SealedPacket, ...]
    boundary: int | None
    source_key: bool
    discontinuity: bool
    streams: tuple[SealedStream, ...]


class PacketLedger:
    """Holds demuxed packets until their picture comes. Pure bookkeeping, no decoding."""

    def __init__(self, max_pending_bytes: int = 256 * 1024 * 1024) -> None:
        self._pending: deque[SealedPacket] = deque()
        self._pending_bytes = 0
        self._max_pending_bytes = max_pending_bytes
        self._boundaries: deque[_Boundary] = deque()
        self._num_taken = 0
        self._streams: tuple[SealedStream, ...] = ()

    @property
    def streams(self) -> tuple[SealedStream, ...]:
        """What the packets taken last belong to."""
        return self._streams

    def begin(self, streams: tuple[SealedStream, ...]) -> None:
        """Describe the streams of the first packets."""
        self._streams = streams

    def add(
        self,
        packet: SealedPacket,
        *,
        key_pts: int | None = None,
        is_video_key: bool = False,
        streams: tuple[SealedStream, ...] | None = None,
    ) -> None:
        """Append a packet; a video key packet opens a boundary that waits for a picture of ``key_pts``.

        Args:
            packet: demuxed after those before.
            key_pts: of a video key packet.
            is_video_key: it is one.
            streams: new descriptions from this packet on (a codec header that changed in mid-stream).

        Raises:
            MediaError: too much was read without a single picture.
        """
        if is_video_key or streams is not None:
            position = self._num_taken + len(self._pending)
            self._boundaries.append(
                _Boundary(position, key_pts, is_video_key, gap=streams is not None, streams=streams)
            )
        self._pending.append(packet)
        self._pending_bytes += len(packet.data)
        if self._pending_bytes > self._max_pending_bytes:
            message = f"source: {self._pending_bytes} bytes of packets without a picture"
            raise MediaError(message)

    def mark_discontinuity(self, streams: tuple[SealedStream, ...] | None = None) -> None:
        """What follows was read after a gap, from ``streams``: the next picture starts a segment here."""
        while self._boundaries and self._boundaries[-1].key:
            self._boundaries.pop()  # key packets of lost pictures; their packets stay
        position = self._num_taken + len(self._pending)
        self._boundaries.append(_Boundary(position, None, key=False, gap=True, streams=streams))

    def take(self, picture_pts: int | None, *, picture_is_key: bool) -> Taken:
        """The packets that go with this picture."""
        reached: _Boundary | None = None
        gap: _Boundary | None = None
        while self._boundaries and self._is_reached(self._boundaries[0], picture_pts, picture_is_key):
            reached = self._boundaries.popleft()
            gap = gap or (reached if reached.gap else None)
            self._streams = reached.streams or self._streams
        for boundary in self._boundaries:
            boundary.pictures_waited += 1
        start = self._num_taken
        end = self._boundaries[0].position if self._boundaries else start + len(self._pending)
        packets = tuple(self._pending.popleft() for _ in range(end - start))
        self._num_taken = end
        self._pending_bytes -= sum(len(packet.data) for packet in packets)
        cut = gap or reached
        return Taken(
            packets,
            boundary=None if cut is None else cut.position - start,
            source_key=reached is not None
            and reached.key
            and (gap is None or gap.position == reached.position),
            discontinuity=gap is not None,
            streams=self._streams,
        )

    def rest(self) -> tuple[SealedPacket, ...]:
        """Everything that no picture took; empties the ledger."""
        packets = tuple(self._pending)
        self._num_taken += len(packets)
        self._pending.clear()
        self._pending_bytes = 0
        self._boundaries.clear()
        return packets

    @staticmethod
    def _is_reached(boundary: _Boundary, pts: int | None, picture_is_key: bool) -> bool:
        if not boundary.key or boundary.pictures_waited >= MAX_PICTURES_WAITED:
            return True
        if boundary.pts is None or pts is None:
            return picture_is_key
        return pts >= boundary.pts
