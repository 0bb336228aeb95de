"""Files that break off: finishing what a power cut left of ours, noticing it in others."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from base.errors import Malformed, UsageError
from base.files import sync_folder
from codec.fmp4 import FragmentEntry, fragment_times, index, set_duration

_BOX_HEAD = struct.Struct(">I4s")
_MAX_HEAD_BYTES = 64 * 1024  # our ftyp + moov take less than 2 KiB
_MAX_BOXES = 200_000
_MAX_MOOF_BYTES = 16 * 1024 * 1024
_EBML_MAGIC = b"\x1a\x45\xdf\xa3"
_SEGMENT_ID = b"\x18\x53\x80\x67"


def recover_part(part_path: Path) -> Path | None:
    """Finish a ``NAME.part`` of ``Fmp4Writer``: cut it after its last whole segment and give it its name.

    Returns:
        The finished file's path; None if there was no whole segment, in which case the part is removed.

    Raises:
        UsageError: the file is not called ``NAME.part``.
        Malformed: it is not one of our files.
    """
    if part_path.suffix != ".part":
        message = f"{part_path.name}: expected a name that ends in .part"
        raise UsageError(message)
    with part_path.open("r+b") as file:
        has_segments = _finish(file)
        file.flush()
        os.fsync(file.fileno())
    if not has_segments:
        part_path.unlink()
        return None
    path = part_path.with_suffix("")
    part_path.replace(path)
    sync_folder(path.parent)
    return path


def _finish(file: BinaryIO) -> bool:
    head_bytes = end = end_us = 0
    entries: list[FragmentEntry] = []
    moof: tuple[int, bytes] | None = None
    for kind, offset, size in whole_boxes(file):
        if kind == b"moov":
            head_bytes = offset + size
        elif kind == b"moof" and size <= _MAX_MOOF_BYTES:
            moof = offset, _read(file, offset, size)
        elif kind == b"mdat" and moof is not None and head_bytes:
            start_us, end_us = fragment_times(moof[1])
            entries.append(FragmentEntry(start_us, moof[0]))
            end, moof = offset + size, None
    if not entries:
        return False
    if head_bytes > _MAX_HEAD_BYTES:
        message = f"MP4 head: {head_bytes} bytes, ours are at most {_MAX_HEAD_BYTES}"
        raise Malformed(message)
    init = set_duration(_read(file, 0, head_bytes), end_us)
    file.truncate(end)
    file.seek(end)
    file.write(index(entries))
    file.seek(0)
    file.write(init)
    return True


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def whole_boxes(file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """Kind, offset and size of the boxes that are there in full, in order."""
    length = file.seek(0, os.SEEK_END)
    offset = 0
    for _ in range(_MAX_BOXES):
        size = _box_bytes(_read(file, offset, 16), length - offset)
        if size is None or offset + size > length:
            return
        yield _read(file, offset + 4, 4), offset, size
        offset += size


def _box_bytes(head: bytes, remaining: int) -> int | None:
    """Size of the box that begins with ``head``, None if there is none (ISO/IEC 14496-12, 4.2)."""
    if len(head) < _BOX_HEAD.size:
        return None
    size, _ = _BOX_HEAD.unpack_from(head)
    if size == 0:
        return remaining
    if size == 1:
        size = int.from_bytes(head[8:16], "big")
    return size if size >= _BOX_HEAD.size else None


def is_cut_short(file: BinaryIO) -> bool:
    """Whether an MP4 or Matroska file ends before its last box or its segment does. libav says nothing then.

    False for other formats, and where the format leaves the size open.
    """
    head = _read(file, 0, 64)
    if head.startswith(_EBML_MAGIC):
        return _is_cut_matroska(head, file.seek(0, os.SEEK_END))
    if head[4:8] not in (b"ftyp", b"styp", b"moov", b"wide", b"mdat", b"free", b"skip"):
        return False
    end = max((offset + size for _, offset, size in whole_boxes(file)), default=0)
    return end < file.seek(0, os.SEEK_END)


def _is_cut_matroska(head: bytes, num_bytes: int) -> bool:
    """RFC 8794 (EBML) and RFC 9559: a head element, then one segment with its size."""
    size, offset = _ebml_size(head, len(_EBML_MAGIC))
    if size is None or head[offset + size : offset + size + 4] != _SEGMENT_ID:
        return False
    segment_bytes, start = _ebml_size(head, offset + size + 4)
    return segment_bytes is not None and start + segment_bytes > num_bytes


def _ebml_size(data: bytes, offset: int) -> tuple[int | None, int]:
    """An element's size, None if unknown, and the offset behind it."""
    first = data[offset] if offset < len(data) else 0
    length = 9 - first.bit_length()
    field = data[offset : offset + length]
    if not first or len(field) < length:
        return None, offset
    value = int.from_bytes(field, "big") & ((1 << 7 * length) - 1)
    unknown = (1 << 7 * length) - 1
    return (None if value == unknown else value), offset + length
