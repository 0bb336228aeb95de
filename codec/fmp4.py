"""Boxes of a fragmented MP4 with one H.264 track (ISO/IEC 14496-12, 14496-15). Pure: units in, bytes out.

Times are exact microseconds. One fragment (moof + mdat) holds one segment, so that a file
which ends early still plays, verifies and opens up to its last whole segment.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from base.errors import Malformed
from codec.access_unit import AccessUnit
from codec.nal import AvcConfig

TIMESCALE = 1_000_000
_TRACK = 1
_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_KEY_SAMPLE = 0x0200_0000  # depends on no other sample
_DELTA_SAMPLE = 0x0101_0000  # depends on others, is no sync sample
_U32_MAX = 2**32 - 1


def box(kind: str, *parts: bytes) -> bytes:
    """A box: size u32, four-character code, content."""
    body = b"".join(parts)
    return struct.pack(">I4s", len(body) + 8, kind.encode("ascii")) + body


def full_box(kind: str, version: int, flags: int, *parts: bytes) -> bytes:
    """A box whose content begins with a version and flags."""
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def init_segment(width: int, height: int, config: AvcConfig, duration_us: int = 0) -> bytes:
    """``ftyp`` and ``moov``. All of its fields have fixed sizes: the duration may be set later, in place.

    Raises:
        Malformed: ``config`` holds no SPS.
    """
    ftyp = box("ftyp", b"iso5", struct.pack(">I", 512), b"iso5iso6isomavc1mp41")
    mvhd = full_box(
        "mvhd",
        1,
        0,
        struct.pack(">QQIQ", 0, 0, TIMESCALE, duration_us),
        struct.pack(">IHHQ", 0x10000, 0x100, 0, 0),
        _MATRIX,
        bytes(24),
        struct.pack(">I", _TRACK + 1),
    )
    trex = full_box("trex", 0, 0, struct.pack(">5I", _TRACK, 1, 0, 0, 0))
    mehd = full_box("mehd", 1, 0, struct.pack(">Q", duration_us))
    return ftyp + box("moov", mvhd, _trak(width, height, config, duration_us), box("mvex", mehd, trex))


def _trak(width: int, height: int, config: AvcConfig, duration_us: int) -> bytes:
    enabled_in_movie = 3
    tkhd = full_box(
        "tkhd",
        1,
        enabled_in_movie,
        struct.pack(">QQIIQ", 0, 0, _TRACK, 0, duration_us),
        bytes(16),
        _MATRIX,
        struct.pack(">II", width << 16, height << 16),
    )
    undetermined = 0x55C4  # "und" in five-bit letters
    mdhd = full_box("mdhd", 1, 0, struct.pack(">QQIQHH", 0, 0, TIMESCALE, duration_us, undetermined, 0))
    hdlr = full_box("hdlr", 0, 0, bytes(4), b"vide", bytes(12), b"VideoHandler\x00")
    dinf = box("dinf", full_box("dref", 0, 0, struct.pack(">I", 1), full_box("url ", 0, 1)))
    minf = box("minf", full_box("vmhd", 0, 1, bytes(8)), dinf, _stbl(width, height, config))
    return box("trak", tkhd, box("mdia", mdhd, hdlr, minf))


def _stbl(width: int, height: int, config: AvcConfig) -> bytes:
    seventy_two_dpi = 0x480000
    avc1 = box(
        "avc1",
        bytes(6),
        struct.pack(">H", 1),
        bytes(16),
        struct.pack(">HHIIIH", width, height, seventy_two_dpi, seventy_two_dpi, 0, 1),
        bytes(32),
        struct.pack(">Hh", 24, -1),
        box("avcC", bytes(config)),
    )
    empty = struct.pack(">I", 0)
    return box(
        "stbl",
        full_box("stsd", 0, 0, struct.pack(">I", 1), avc1),
        full_box("stts", 0, 0, empty),
        full_box("stsc", 0, 0, empty),
        full_box("stsz", 0, 0, empty, empty),
        full_box("stco", 0, 0, empty),
    )


def fragment(sequence: int, start_us: int, units: Sequence[AccessUnit], end_us: int) -> bytes:
    """``moof`` and ``mdat`` for the units of one segment.

    Args:
        sequence: 1 for the first fragment, then rising.
        start_us: time of the first unit on the track's time line, not negative.
        units: at least one; times that do not rise get one microsecond each.
        end_us: when the last unit's picture gives way, in the units' own times.
    """
    samples = [unit.avcc() for unit in units]
    durations = sample_durations([unit.pts_us for unit in units], end_us)
    rows = b"".join(
        struct.pack(">III", duration, len(sample), _KEY_SAMPLE if unit.is_keyframe else _DELTA_SAMPLE)
        for unit, sample, duration in zip(units, samples, durations, strict=True)
    )
    # tfhd: offsets count from the moof; trun: data offset, and duration, size and flags per sample.
    tfhd = full_box("tfhd", 0, 0x020000, struct.pack(">I", _TRACK))
    tfdt = full_box("tfdt", 1, 0, struct.pack(">Q", start_us))
    mfhd = full_box("mfhd", 0, 0, struct.pack(">I", sequence))
    trun_bytes = 20 + len(rows)
    moof_bytes = 8 + len(mfhd) + 8 + len(tfhd) + len(tfdt) + trun_bytes
    trun = full_box("trun", 0, 0x000701, struct.pack(">II", len(units), moof_bytes + 8), rows)
    return box("moof", mfhd, box("traf", tfhd, tfdt, trun)) + box("mdat", *samples)


def sample_durations(times_us: Sequence[int], end_us: int) -> list[int]:
    """Length of each sample in microseconds, at least 1, from the times and the end of the last one."""
    following = [*times_us[1:], end_us]
    return [min(max(b - a, 1), _U32_MAX) for a, b in zip(times_us, following, strict=True)]


@dataclass(frozen=True, slots=True)
class FragmentEntry:
    """Where a fragment begins in the file, and when."""

    start_us: int
    moof_offset: int


def index(entries: Sequence[FragmentEntry]) -> bytes:
    """``mfra``: the table at the end of the file that makes seeking quick."""
    rows = b"".join(struct.pack(">QQBBB", entry.start_us, entry.moof_offset, 1, 1, 1) for entry in entries)
    tfra = full_box("tfra", 1, 0, struct.pack(">III", _TRACK, 0, len(entries)), rows)
    total_bytes = 8 + len(tfra) + 16
    return box("mfra", tfra, full_box("mfro", 0, 0, struct.pack(">I", total_bytes)))


def set_duration(init: bytes, duration_us: int) -> bytes:
    """An initialisation segment of ours with its duration changed.

    Raises:
        Malformed: it is not one of ours.
    """
    if not all(name in init for name in (b"mvhd", b"tkhd", b"mdhd", b"mehd")):
        message = "MP4 head: not laid out as ours are"
        raise Malformed(message)
    patched = bytearray(init)
    value = struct.pack(">Q", duration_us)
    # From each box's name: version and flags (4 bytes), then the fields before the duration.
    places = (
        (init.index(b"mvhd"), 28),
        (init.index(b"tkhd"), 32),
        (init.index(b"mdhd"), 28),
        (init.rindex(b"mehd"), 8),
    )
    for name, offset in places:
        patched[name + offset : name + offset + 8] = value
    return bytes(patched)


def fragment_times(moof: bytes) -> tuple[int, int]:
    """Start and end of a fragment of ours, in microseconds.

    Raises:
        Malformed: another layout than ``fragment`` writes.
    """
    # moof, mfhd, traf and tfhd take 48 bytes, tfdt 20, and trun 20 before its rows of 12.
    tfdt, trun, rows = 48, 68, 88
    names = moof[tfdt + 4 : tfdt + 8], moof[trun + 4 : trun + 8]
    if names != (b"tfdt", b"trun") or (len(moof) - rows) % 12:
        message = "MP4 fragment: not laid out as ours are"
        raise Malformed(message)
    start_us = int.from_bytes(moof[tfdt + 12 : trun], "big")
    durations = struct.iter_unpack(">III", moof[rows:])
    return start_us, start_us + sum(duration for duration, _, _ in durations)
