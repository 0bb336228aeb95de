"""One received access unit, and the bounded queue in which units wait for their reader."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

IDR_NAL_TYPE = 5
_START_CODE = b"\x00\x00\x01"


@dataclass(frozen=True, slots=True)
class EncodedUnit:
    """One access unit as it was encoded.

    Attributes:
        data: Annex-B bytes, SEI included; parameter sets in band before every key frame.
        pts_us: microseconds since the first unit received; strictly rising over reconnects too.
        is_keyframe: it holds an IDR picture.
        discontinuity: units before it are missing (a reconnect, or a reader that was too slow).
    """

    data: bytes
    pts_us: int
    is_keyframe: bool
    discontinuity: bool = False


def has_key_picture(data: bytes) -> bool:
    """Whether an Annex-B access unit has an IDR slice."""
    at = data.find(_START_CODE)
    while 0 <= at < len(data) - 3:
        if data[at + 3] & 0x1F == IDR_NAL_TYPE:
            return True
        at = data.find(_START_CODE, at + 3)
    return False


class UnitQueue:
    """Units that wait, bounded in number and bytes; one thread.

    Drop policy: a unit that does not fit empties the queue, and what follows is dropped up to the next key
    frame, which is marked as a discontinuity. So a decoder behind it never sees a broken reference.
    """

    def __init__(self, max_units: int, max_bytes: int) -> None:
        """Start empty; the first unit taken will be a key frame."""
        self.num_dropped = 0
        self._max_units = max_units
        self._max_bytes = max_bytes
        self._units: deque[EncodedUnit] = deque()
        self._num_bytes = 0
        self._needs_key = True
        self._has_gap = False

    def __len__(self) -> int:
        return len(self._units)

    def put(self, data: bytes, pts_us: int) -> bool:
        """Queue a unit; True when the queue overflowed and a key frame is wanted now."""
        is_key = has_key_picture(data)
        full = len(self._units) >= self._max_units or self._num_bytes + len(data) > self._max_bytes
        overflowed = bool(self._units) and full
        if overflowed:
            self.drop()
        if self._needs_key and not is_key:
            self.num_dropped += 1
            return overflowed
        self._units.append(EncodedUnit(data, pts_us, is_key, self._has_gap))
        self._num_bytes += len(data)
        self._needs_key = self._has_gap = False
        return overflowed

    def drop(self) -> None:
        """Forget what waits; go on with the next key frame."""
        self.num_dropped += len(self._units)
        self._units.clear()
        self._num_bytes = 0
        self._needs_key = self._has_gap = True

    def pop(self) -> EncodedUnit | None:
        """The oldest unit; None when there is none."""
        if not self._units:
            return None
        unit = self._units.popleft()
        self._num_bytes -= len(unit.data)
        return unit
