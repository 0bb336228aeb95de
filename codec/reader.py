"""Bounded big-endian reading, and the TLV framing that all our records share."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from base.errors import LimitExceeded, Malformed, Truncated, UnknownVersion

CRITICAL = 0x80
TLV_HEAD = struct.Struct(">BI")
_RUN_OF_FF = re.compile(rb"\xff*")


def end_of_ff(data: bytes, offset: int) -> int:
    """Return where the run of 0xFF, perhaps an empty one, that begins at ``offset`` ends."""
    found = _RUN_OF_FF.match(data, offset)
    return offset if found is None else found.end()


class Reader:
    """A cursor over bytes that names what is missing when they end too early."""

    __slots__ = ("_data", "_offset", "what")

    def __init__(self, data: bytes, what: str) -> None:
        """Read ``data``; ``what`` names it in error messages."""
        self._data = data
        self._offset = 0
        self.what = what

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._offset

    def take(self, count: int, field: str) -> bytes:
        """The next ``count`` bytes.

        Raises:
            Truncated: fewer are left.
        """
        start = self._offset
        end = start + count
        if end > len(self._data):
            message = f"{self.what}: {field} needs {count} bytes at offset {start}, {self.remaining} left"
            raise Truncated(message)
        self._offset = end
        return self._data[start:end]

    def unsigned(self, size: int, field: str, maximum: int | None = None) -> int:
        """A big-endian unsigned integer of ``size`` bytes, at most ``maximum``."""
        value = int.from_bytes(self.take(size, field), "big")
        if maximum is not None and value > maximum:
            message = f"{self.what}: {field} is {value}, limit is {maximum}"
            raise LimitExceeded(message)
        return value

    def skip_ff(self, field: str) -> int:
        """Pass over a run of 0xFF, perhaps an empty one, and return its length.

        Raises:
            Truncated: nothing follows it.
        """
        end = end_of_ff(self._data, self._offset)
        if end == len(self._data):
            message = f"{self.what}: {field} at offset {self._offset} has no end"
            raise Truncated(message)
        length = end - self._offset
        self._offset = end
        return length

    def i64(self, field: str) -> int:
        """A big-endian signed 64-bit integer."""
        return int.from_bytes(self.take(8, field), "big", signed=True)

    def block(self, size: int, field: str, maximum: int) -> bytes:
        """Bytes that follow their own length of ``size`` bytes."""
        return self.take(self.unsigned(size, f"length of {field}", maximum), field)

    def name(self, field: str) -> str:
        """A printable ASCII name of 0..255 characters after its length byte."""
        data = self.block(1, field, 255)
        if not all(0x20 <= byte < 0x7F for byte in data):
            message = f"{self.what}: {field} is not printable ASCII"
            raise Malformed(message)
        return data.decode("ascii")

    def end(self) -> None:
        """Require that everything was read."""
        if self.remaining:
            message = f"{self.what}: {self.remaining} bytes too many"
            raise Malformed(message)


@dataclass(frozen=True, slots=True)
class Tlv:
    """One record: type u8 (high bit: critical) | length u32 | body."""

    kind: int
    body: bytes

    def __bytes__(self) -> bytes:
        return TLV_HEAD.pack(self.kind, len(self.body)) + self.body


def read_tlvs(reader: Reader, max_body_bytes: int, max_records: int) -> Iterator[Tlv]:
    """All records up to the end of ``reader``."""
    for _ in range(max_records):
        if not reader.remaining:
            return
        kind = reader.unsigned(1, "record type")
        yield Tlv(kind, reader.block(4, f"record {kind:#04x}", max_body_bytes))
    if reader.remaining:
        message = f"{reader.what}: more than {max_records} records"
        raise LimitExceeded(message)


def refuse_critical(kind: int, what: str) -> None:
    """Let an unknown optional record pass.

    Raises:
        UnknownVersion: the record is critical.
    """
    if kind & CRITICAL:
        message = f"{what}: critical record {kind:#04x} is not known to this release"
        raise UnknownVersion(message)


def pack_block(size: int, data: bytes) -> bytes:
    """``data`` after its length of ``size`` bytes."""
    return len(data).to_bytes(size, "big") + data
