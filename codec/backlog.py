"""Bytes of the sealed stream that wait for room in an access unit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from base.errors import LimitExceeded
from codec.chunks import NO_RECORD_START
from codec.limits import Limits
from codec.packets import SealedPacket, SealedStream, end_record, packet_record, stream_record


class Backlog:
    """A queue of bytes that remembers where records begin, so that a reader can resume after a lost chunk."""

    def __init__(self, streams: Iterable[SealedStream], limits: Limits) -> None:
        """Start a segment's sealed byte stream with its STREAM records."""
        self._limits = limits
        self._bytes = bytearray()
        self._taken = 0  # bytes of the sealed stream that have left
        self._starts: deque[int] = deque()  # where in the sealed stream the waiting records begin
        self._num_records = 0
        for stream in streams:
            self._append(stream_record(stream))

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def num_bytes(self) -> int:
        """Of the sealed byte stream so far, sealed or waiting."""
        return self._taken + len(self._bytes)

    def add(self, packets: Iterable[SealedPacket]) -> None:
        """Queue packets.

        Raises:
            LimitExceeded: a packet or the segment is larger than readers accept.
        """
        for packet in packets:
            if len(packet.data) > self._limits.max_packet_bytes - 64:
                message = f"sealed packet: {len(packet.data)} bytes, limit is {self._limits.max_packet_bytes}"
                raise LimitExceeded(message)
            self._append(packet_record(packet))

    def end(self) -> None:
        """Queue the END record."""
        self._append(end_record(self._num_records))

    def _append(self, record: bytes) -> None:
        if self._taken + len(self._bytes) + len(record) > self._limits.max_segment_bytes:
            message = f"sealed segment: more than {self._limits.max_segment_bytes} bytes"
            raise LimitExceeded(message)
        if self._num_records >= self._limits.max_records_per_segment:
            message = f"sealed segment: more than {self._limits.max_records_per_segment} records"
            raise LimitExceeded(message)
        self._starts.append(self._taken + len(self._bytes))
        self._num_records += 1
        self._bytes += record

    def take(self, count: int) -> bytes:
        """The plaintext of one chunk: where its first record begins, then up to ``count`` bytes."""
        data = bytes(self._bytes[:count])
        del self._bytes[:count]
        start = NO_RECORD_START
        end = self._taken + len(data)
        while self._starts and self._starts[0] < end:
            start = min(start, self._starts.popleft() - self._taken)
        self._taken = end
        return start.to_bytes(4, "big") + data
