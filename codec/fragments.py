"""Segments inside our own recordings: where each one is, and one of them without its ciphertext.

Works on finished files and on growing ones (``NAME.part``), reads box heads only, and never writes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from base.errors import LimitExceeded, Malformed, Truncated
from codec.access_unit import AccessUnit
from codec.fmp4 import fragment, fragment_times
from codec.limits import DEFAULT_LIMITS, Limits
from codec.recovery import whole_boxes

_MAX_HEAD_BYTES = 64 * 1024
_MAX_MOOF_BYTES = 1024 * 1024
_MAX_FRAGMENTS = 100_000
_ROWS = 88  # where trun's rows begin in a moof of ours: see codec.fmp4.fragment_times


@dataclass(frozen=True, slots=True)
class Fragment:
    """One segment: its place in the file (``moof`` and ``mdat``) and on the file's time line."""

    offset: int
    num_bytes: int
    start_us: int
    duration_us: int


@dataclass(frozen=True, slots=True)
class FragmentIndex:
    """What a player needs of one recording.

    Attributes:
        head: ``ftyp`` and ``moov``.
        codec: as in RFC 6381, such as ``avc1.42c01f``.
        width: luma columns.
        height: luma rows.
        fragments: in order.
    """

    head: bytes
    codec: str
    width: int
    height: int
    fragments: tuple[Fragment, ...]

    @property
    def duration_us(self) -> int:
        """End of the last segment; 0 without any."""
        last = self.fragments[-1] if self.fragments else None
        return 0 if last is None else last.start_us + last.duration_us


def read_index(file: BinaryIO) -> FragmentIndex:
    """The index of a recording; what is behind its last whole segment is left out.

    Raises:
        Malformed: not a recording of ours, or its head is too large.
    """
    head = b""
    fragments: list[Fragment] = []
    moof: tuple[int, int, bytes] | None = None
    for kind, offset, size in whole_boxes(file):
        if kind == b"moov" and not head:
            head = _read_head(file, offset + size)
        elif kind == b"moof":
            moof = offset, size, _read(file, offset, min(size, _MAX_MOOF_BYTES))
        elif kind == b"mdat" and moof is not None and len(fragments) < _MAX_FRAGMENTS:
            start_us, end_us = _times(moof[2])
            fragments.append(Fragment(moof[0], moof[1] + size, start_us, end_us - start_us))
            moof = None
    if not head:
        message = "recording: no head (ftyp and moov)"
        raise Malformed(message)
    width, height, codec = _describe(head)
    return FragmentIndex(head, codec, width, height, tuple(fragments))


def protected_fragment(data: bytes, sequence: int, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """One segment (``moof`` and ``mdat``) without its sealed layer, still signed, for who has no key.

    Args:
        data: the bytes of a ``Fragment``.
        sequence: number of the new fragment, from 1.
        limits: bounds.

    Raises:
        FormatError: not a fragment of ours.
    """
    if len(data) > limits.max_segment_bytes:
        message = f"recording: segment of {len(data)} bytes, limit is {limits.max_segment_bytes}"
        raise LimitExceeded(message)
    moof_bytes = int.from_bytes(data[:4], "big")
    if data[4:8] != b"moof" or data[moof_bytes + 4 : moof_bytes + 8] != b"mdat":
        message = "recording: expected moof and mdat"
        raise Malformed(message)
    moof = data[:moof_bytes]
    start_us, end_us = _times(moof)
    units, time_us, offset = [], start_us, moof_bytes + 8
    for duration_us, size in _samples(moof):
        if offset + size > len(data):
            message = f"recording: sample ends at {offset + size}, the segment at {len(data)}"
            raise Truncated(message)
        unit = AccessUnit.from_avcc(data[offset : offset + size], time_us, limits=limits)
        units.append(unit.without_sealed())
        time_us += duration_us
        offset += size
    if not units:
        message = "recording: segment without a picture"
        raise Malformed(message)
    return fragment(sequence, start_us, units, end_us)


def _samples(moof: bytes) -> Iterator[tuple[int, int]]:
    """Duration in microseconds and size in bytes of every sample."""
    for duration_us, size, _ in struct.iter_unpack(">III", moof[_ROWS:]):
        yield duration_us, size


def _times(moof: bytes) -> tuple[int, int]:
    if len(moof) < _ROWS:
        message = f"recording: moof of {len(moof)} bytes, expected at least {_ROWS}"
        raise Truncated(message)
    return fragment_times(moof)


def _read_head(file: BinaryIO, size: int) -> bytes:
    if size > _MAX_HEAD_BYTES:
        message = f"recording: head of {size} bytes, ours are at most {_MAX_HEAD_BYTES}"
        raise Malformed(message)
    return _read(file, 0, size)


def _describe(head: bytes) -> tuple[int, int, str]:
    """Width and height from the sample entry, and the codec from the profile bytes of its avcC."""
    entry, config = head.rfind(b"avc1"), head.rfind(b"avcC")
    if entry < 0 or config < entry or len(head) < config + 8:
        message = "recording: no H.264 sample entry"
        raise Malformed(message)
    # ISO/IEC 14496-12, 12.1.3: 24 bytes of fields before the size of a VisualSampleEntry.
    width, height = struct.unpack_from(">HH", head, entry + 28)
    return width, height, "avc1." + head[config + 5 : config + 8].hex()


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset, os.SEEK_SET)
    return file.read(size)
