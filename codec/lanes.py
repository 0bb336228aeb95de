"""The parts of a segment's sealed data while they are written: one, or one more for each region.

Each part is a sealed byte stream of its own with its own key, backlog and count of chunks, so that a
reader with the key of one part needs nothing of the others, and what is lost of one leaves the others whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from base.errors import LimitExceeded, UsageError
from codec.backlog import Backlog
from codec.chunks import SealedChunk, chunk_cost, chunk_number, chunk_room, part_of_region
from codec.digests import chunk_aad
from codec.limits import Limits
from codec.packets import SealedPacket, SealedStream
from codec.records import SegmentHeader
from codec.stream_info import region_of
from keys.schedule import SealedCipher, SegmentKeys, chunk_nonce

_SMALL_CHUNK_BYTES = 256  # a chunk costs about 60 bytes: in a crowded unit, fewer than this can wait
# Where there are many parts, a part waits for so many bytes, but not longer than so many units: a chunk for
# every tile in every unit adds 10 % to an AV1 original of 768x576 in 4x4 tiles, this adds 3 %.
_PATIENT_BYTES = 2048
_PATIENT_UNITS = 16


class Share(NamedTuple):
    """How many waiting bytes of a part go into a unit."""

    lane: Lane
    num_bytes: int


class Lane:
    """One part: its waiting bytes and its cipher."""

    def __init__(
        self, part: int, streams: Sequence[SealedStream], cipher: SealedCipher, limits: Limits
    ) -> None:
        self.backlog = Backlog(streams, limits)
        self.num_passed_over = 0
        self._part = part
        self._cipher = cipher
        self._num_chunks = 0

    def seal(
        self, count: int, header: SegmentHeader, header_digest: bytes, picture_digest: bytes
    ) -> SealedChunk:
        """Encrypt the next ``count`` waiting bytes."""
        number = chunk_number(self._part, self._num_chunks)
        self._num_chunks += 1
        self.num_passed_over = 0
        aad = chunk_aad(header_digest, header.camera_id, header.segment_index, number, picture_digest)
        ciphertext = self._cipher.seal(chunk_nonce(number), self.backlog.take(count), aad)
        return SealedChunk(header.segment_index, number, ciphertext)


class Lanes:
    """All parts of a segment; none if nothing is sealed."""

    def __init__(
        self, header: SegmentHeader, keys: SegmentKeys | None, streams: Sequence[SealedStream], limits: Limits
    ) -> None:
        """Start the parts with their STREAM records.

        Raises:
            UsageError: a stream of a region that the header's grid has not.
        """
        self._limits = limits
        self._lanes: dict[int, Lane] = {}
        self._part_of = {stream.index: part_of_region(region_of(stream)) for stream in streams}
        if keys is None:
            return
        grid = header.regions
        for part in range(1 + (grid.num_regions if grid else 0)):
            own = [stream for stream in streams if self._part_of[stream.index] == part]
            cipher = keys.region_cipher(part - 1) if part else keys.sealed_cipher()
            self._lanes[part] = Lane(part, own, cipher, limits)
        if stray := set(self._part_of.values()) - self._lanes.keys():
            message = f"sealed streams: of region {min(stray) - 1}, the grid has {len(self._lanes) - 1}"
            raise UsageError(message)

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def num_waiting_bytes(self) -> int:
        """Bytes of all parts that wait for room."""
        return sum(len(lane.backlog) for lane in self._lanes.values())

    def add(self, packets: Sequence[SealedPacket]) -> None:
        """Queue packets, each in the part of its stream.

        Raises:
            LimitExceeded: larger than readers accept.
        """
        for packet in packets:
            self._lanes[self._part_of.get(packet.stream_index, 0)].backlog.add((packet,))
        if sum(lane.backlog.num_bytes for lane in self._lanes.values()) > self._limits.max_segment_bytes:
            message = f"sealed segment: more than {self._limits.max_segment_bytes} bytes"
            raise LimitExceeded(message)

    def end(self) -> None:
        """Queue the END records."""
        for lane in self._lanes.values():
            lane.backlog.end()

    def shares(self, free_bytes: int, turn: int, pressure_bytes: int, *, is_last: bool) -> Iterator[Share]:
        """How a unit's free bytes are given to the parts.

        Args:
            free_bytes: room under the cap.
            turn: which part is served first, so that none starves.
            pressure_bytes: what may wait at most; above it, room or not, bytes go.
            is_last: everything goes, whatever the room.
        """
        over = self.num_waiting_bytes - pressure_bytes
        lanes = list(self._lanes.values())
        start = turn % max(len(lanes), 1)
        for number, lane in enumerate((*lanes[start:], *lanes[:start])):
            waiting = len(lane.backlog)
            count = waiting if is_last else min(waiting, max(chunk_room(free_bytes), over))
            if not count or (number and not is_last and count < min(waiting, _SMALL_CHUNK_BYTES)):
                continue
            if not is_last and over <= 0 and self._is_patient(lane):
                lane.num_passed_over += 1
                continue
            yield Share(lane, count)
            over -= count
            free_bytes -= chunk_cost(count)

    def _is_patient(self, lane: Lane) -> bool:
        return (
            len(self._lanes) > 1
            and len(lane.backlog) < _PATIENT_BYTES
            and lane.num_passed_over < _PATIENT_UNITS - 1
        )
