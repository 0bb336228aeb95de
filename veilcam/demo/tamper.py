"""Damage for the demonstration: one bit, in the middle of the picture data."""

from __future__ import annotations

from pathlib import Path

import av

from base.errors import MediaError
from base.files import atomic_write

_FROM_END = 16  # bytes before the unit's end: the slice follows our SEI units, so this is picture data


def flip_one_bit(source: Path, target: Path) -> int:
    """Copy ``source`` to ``target`` with one bit of one coded picture changed; returns the byte's offset.

    Raises:
        MediaError: the file has no picture to change.
    """
    try:
        with av.open(str(source)) as container:
            spots = [
                packet.pos + packet.size - _FROM_END
                for packet in container.demux(video=0)
                if packet.size > 2 * _FROM_END and packet.pos is not None and packet.pos >= 0
            ]
    except av.FFmpegError as error:
        raise MediaError(f"{source.name}: cannot be read: {error}") from error
    if not spots:
        raise MediaError(f"{source.name}: no coded picture found")
    data = bytearray(source.read_bytes())
    offset = spots[len(spots) // 2]
    data[offset] ^= 0x10
    atomic_write(target, bytes(data))
    return offset
