"""What a grant holds: the keys of its segments, as bytes that are then encrypted.

    number of groups u32, then for each group (one stream of one epoch):
      stream id 16 | epoch id 16 | number of segments u32, then for each segment, index rising:
        index u64 | first picture i64 | last picture i64 | number of keys u8, then for each key:
          selector u8 | key 32
    selector 0xFF: K_s, which opens the whole segment; then it is the only key
    selector 0 to 63: the key of that region of the picture, rising

Integers are big-endian. Nothing else is in it: no epoch key, no key of a segment outside the scope.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import final

from base.errors import LimitExceeded, Malformed, Truncated, UsageError
from keys.schedule import ID_BYTES, KEY_BYTES, MAX_REGIONS, MAX_SEGMENT_INDEX, RegionKeys, SegmentKeys
from keys.secret import RevealToken, SecretBytes, Unshareable

WHOLE_SEGMENT = 0xFF
MAX_SEGMENTS = 500_000  # eleven days of segments of two seconds
MAX_PAYLOAD_BYTES = 64 * 2**20
MAX_GROUPS = 65_536
_COUNT = struct.Struct(">I")
_GROUP = struct.Struct(">16s16sI")
_SEGMENT = struct.Struct(">QqqB")

SegmentName = tuple[bytes, bytes, int]
"""Stream id, epoch id, segment index."""


@final
@dataclass(frozen=True, slots=True)
class GrantedSegment:
    """One segment of a grant: keys, and capture times of its first and last picture (Unix microseconds)."""

    first_us: int
    last_us: int
    keys: SegmentKeys | RegionKeys


@final
class GrantPayload(Unshareable):
    """Segments by name. Grows by `add`, becomes bytes by `pack`."""

    __slots__ = ("_segments",)

    def __init__(self) -> None:
        self._segments: dict[SegmentName, GrantedSegment] = {}

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def span_us(self) -> tuple[int, int] | None:
        """Capture times of the first and the last picture, Unix microseconds; None if it is empty."""
        if not self._segments:
            return None
        return (
            min(each.first_us for each in self._segments.values()),
            max(each.last_us for each in self._segments.values()),
        )

    def add(
        self, name: SegmentName, keys: SegmentKeys, first_us: int, last_us: int, regions: tuple[int, ...] = ()
    ) -> None:
        """Add a segment: all of it, or some regions, whose keys alone are then kept.

        Raises:
            LimitExceeded: the grant has 500000 segments already.
            UsageError: an id has not 16 bytes, or a number does not fit.
        """
        stream_id, epoch_id, index = name
        if len(stream_id) != ID_BYTES or len(epoch_id) != ID_BYTES or not 0 <= index <= MAX_SEGMENT_INDEX:
            message = "grant: expected ids of 16 bytes and an index of 64 bits"
            raise UsageError(message)
        if len(self._segments) >= MAX_SEGMENTS:
            message = f"grant: more than {MAX_SEGMENTS} segments; make one for each day"
            raise LimitExceeded(message)
        kept = RegionKeys({each: keys.region_key(each) for each in regions}) if regions else keys
        self._segments[name] = GrantedSegment(first_us, last_us, kept)

    def get(self, name: SegmentName) -> GrantedSegment | None:
        """Return a segment, or None: it is not in the grant."""
        return self._segments.get(name)

    def names(self) -> tuple[SegmentName, ...]:
        """Return what is in it."""
        return tuple(self._segments)

    def pack(self) -> SecretBytes:
        """Return the bytes to encrypt.

        Raises:
            LimitExceeded: more than 64 MiB.
        """
        groups: dict[tuple[bytes, bytes], list[tuple[int, GrantedSegment]]] = {}
        for (stream_id, epoch_id, index), segment in self._segments.items():
            groups.setdefault((stream_id, epoch_id), []).append((index, segment))
        data = bytearray(_COUNT.pack(len(groups)))
        for (stream_id, epoch_id), segments in sorted(groups.items()):
            data += _GROUP.pack(stream_id, epoch_id, len(segments))
            for index, segment in sorted(segments, key=lambda each: each[0]):
                _pack_segment(data, index, segment)
        if len(data) > MAX_PAYLOAD_BYTES:
            message = f"grant: {len(data)} bytes of keys, limit is {MAX_PAYLOAD_BYTES}"
            raise LimitExceeded(message)
        packed = SecretBytes(data)
        data[:] = bytes(len(data))
        return packed

    @classmethod
    def unpack(cls, secret: SecretBytes) -> GrantPayload:
        """Read what `pack` wrote.

        Raises:
            FormatError: it is something else, or above the limits.
        """
        reader = _Cursor(secret.expose(RevealToken("grant contents")))
        payload = cls()
        num_groups = reader.unsigned(4)
        if num_groups > MAX_GROUPS:
            message = f"grant contents: {num_groups} groups, limit is {MAX_GROUPS}"
            raise LimitExceeded(message)
        for _ in range(num_groups):
            payload._read_group(reader)
        reader.end()
        return payload

    def _read_group(self, reader: _Cursor) -> None:
        stream_id, epoch_id = bytes(reader.block(ID_BYTES)), bytes(reader.block(ID_BYTES))
        num_segments = reader.unsigned(4)
        if num_segments + len(self._segments) > MAX_SEGMENTS:
            message = f"grant contents: more than {MAX_SEGMENTS} segments"
            raise LimitExceeded(message)
        before = -1
        for _ in range(num_segments):
            index, first_us, last_us = reader.unsigned(8), reader.time_us(), reader.time_us()
            num_keys = reader.unsigned(1)
            if index <= before or first_us > last_us or (stream_id, epoch_id, index) in self._segments:
                message = "grant contents: segments out of order, twice, or ending before they begin"
                raise Malformed(message)
            before = index
            keys = _read_keys(reader, num_keys)
            self._segments[stream_id, epoch_id, index] = GrantedSegment(first_us, last_us, keys)


class _Cursor:
    """Walks over the bytes without copying them."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._place = 0

    def block(self, num_bytes: int) -> memoryview:
        if self._place + num_bytes > len(self._view):
            message = "grant contents: they end early"
            raise Truncated(message)
        self._place += num_bytes
        return self._view[self._place - num_bytes : self._place]

    def unsigned(self, num_bytes: int) -> int:
        return int.from_bytes(self.block(num_bytes), "big")

    def time_us(self) -> int:
        return int.from_bytes(self.block(8), "big", signed=True)

    def end(self) -> None:
        if self._place != len(self._view):
            message = f"grant contents: {len(self._view) - self._place} bytes left over"
            raise Malformed(message)


def _pack_segment(data: bytearray, index: int, segment: GrantedSegment) -> None:
    token = RevealToken("grant contents")
    keys = segment.keys
    if isinstance(keys, SegmentKeys):
        chosen = [(WHOLE_SEGMENT, keys.secret)]
    else:
        chosen = [(region, keys.secret(region)) for region in sorted(keys.regions)]
    data += _SEGMENT.pack(index, segment.first_us, segment.last_us, len(chosen))
    for selector, secret in chosen:
        data += bytes((selector,))
        data += secret.expose(token)


def _read_keys(reader: _Cursor, num_keys: int) -> SegmentKeys | RegionKeys:
    if not 1 <= num_keys <= MAX_REGIONS:
        message = f"grant contents: a segment with {num_keys} keys"
        raise Malformed(message)
    found = [(reader.unsigned(1), SecretBytes(reader.block(KEY_BYTES))) for _ in range(num_keys)]
    selectors = [selector for selector, _ in found]
    if selectors == [WHOLE_SEGMENT]:
        return SegmentKeys(found[0][1])
    if selectors != sorted(set(selectors)) or selectors[-1] >= MAX_REGIONS:
        message = "grant contents: keys of regions that do not exist, or out of order"
        raise Malformed(message)
    return RegionKeys(dict(found))
