"""SEI NAL units that carry veilcam data: user_data_unregistered under our UUID (H.264, 7.3.2.3, D.1.7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from base.errors import LimitExceeded, Malformed, UnknownVersion
from codec.limits import DEFAULT_LIMITS, Limits
from codec.nal import NalType, escape, nal_type, unescape
from codec.reader import Reader, end_of_ff

VEILCAM_UUID = bytes.fromhex("8f2c1d7e5b0a4e639c47b1e0d35a66f4")
FORMAT_VERSION = 1
_USER_DATA_UNREGISTERED = 5
_STOP_BIT = b"\x80"


class SeiKind(IntEnum):
    """What one of our SEI messages carries. Readers skip kinds they do not know."""

    META = 1
    SEALED = 2
    CARRIED = 3  # another picture's SEI, on its way (codec.carrier)


@dataclass(frozen=True, slots=True)
class SeiMessage:
    """One SEI message, of anybody."""

    payload_type: int
    payload: bytes


def pack_message(payload_type: int, payload: bytes) -> bytes:
    """A whole SEI NAL unit with one message."""
    size = _ff_coded(payload_type) + _ff_coded(len(payload))
    return bytes([NalType.SEI]) + escape(size + payload + _STOP_BIT)


def pack_veilcam(kind: SeiKind, body: bytes) -> bytes:
    """A whole SEI NAL unit with our data: UUID | format version u8 | kind u8 | body."""
    return pack_message(_USER_DATA_UNREGISTERED, VEILCAM_UUID + bytes([FORMAT_VERSION, kind]) + body)


def _ff_coded(value: int) -> bytes:
    return b"\xff" * (value // 255) + bytes([value % 255])


def _read_ff_coded(reader: Reader, field: str) -> int:
    # A run at a time: a chunk of 16 KiB has 64 of them, and byte by byte they cost more than its decryption.
    return 0xFF * reader.skip_ff(field) + reader.unsigned(1, field)


def read_messages(nal: bytes, limits: Limits = DEFAULT_LIMITS) -> Iterator[SeiMessage]:
    """The messages of one SEI NAL unit.

    Raises:
        FormatError: sizes point past the end, or the stop bit is missing.
    """
    rbsp = unescape(nal[1:])
    end = len(rbsp.rstrip(b"\x00"))
    if not end or rbsp[end - 1] != _STOP_BIT[0]:
        message = "SEI: no stop bit after the last message"
        raise Malformed(message)
    reader = Reader(rbsp[: end - 1], "SEI")
    for _ in range(limits.max_sei_messages_per_unit):
        if not reader.remaining:
            return
        payload_type = _read_ff_coded(reader, "payload type")
        size = _read_ff_coded(reader, "payload size")
        yield SeiMessage(payload_type, reader.take(size, "payload"))
    message = f"SEI: more than {limits.max_sei_messages_per_unit} messages"
    raise LimitExceeded(message)


def veilcam_kind(nal: bytes) -> int | None:
    """The kind of our SEI NAL unit, told without unescaping it; None for everything else.

    Ours is one whose first message is user_data_unregistered under our UUID. UUID, version
    and kind hold no zero bytes, so emulation prevention never splits them.
    """
    if nal_type(nal) != NalType.SEI or nal[1:2] != bytes([_USER_DATA_UNREGISTERED]):
        return None
    offset = end_of_ff(nal, 2)
    if not nal.startswith(VEILCAM_UUID, offset + 1):
        return None
    kind_offset = offset + 1 + len(VEILCAM_UUID) + 1
    return nal[kind_offset] if kind_offset < len(nal) else 0


def read_veilcam(nal: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[int, bytes] | None:
    """Kind and body of our message; None for other NAL units and other people's SEI.

    Raises:
        UnknownVersion: our UUID with a format version that this release does not know.
        FormatError: our UUID in an SEI that is damaged or holds more than the one message.
    """
    if veilcam_kind(nal) is None:
        return None
    first, *others = read_messages(nal, limits)
    if others:
        message = f"veilcam SEI: {len(others)} messages behind it, expected none"
        raise Malformed(message)
    return _body(first.payload)


def _body(payload: bytes) -> tuple[int, bytes]:
    reader = Reader(payload, "veilcam SEI")
    reader.take(len(VEILCAM_UUID), "UUID")
    version = reader.unsigned(1, "format version")
    if version != FORMAT_VERSION:
        message = f"veilcam SEI: format version is {version}, this release reads {FORMAT_VERSION}"
        raise UnknownVersion(message)
    kind = reader.unsigned(1, "kind")
    return kind, reader.take(reader.remaining, "body")
