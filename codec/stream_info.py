"""Optional facts about a sealed stream that ride as extensions of its STREAM record."""

from __future__ import annotations

from base.errors import Malformed
from codec.packets import SealedStream
from codec.reader import Tlv

ROTATION_RECORD = 0x01
"""Extension: i16, degrees counter-clockwise by which a player turns the picture."""

REORDER_RECORD = 0x02
"""Extension: u8, pictures a decoder holds back because of B-frames; muxers need it where dts is unknown."""

REGION_RECORD = 0x03
"""Extension: u8, the region whose tile the video shows."""

CLOCK_RECORD = 0x04
"""Extension: i64, microseconds: capture time (Unix) less the packets' own time, in this segment."""


def region_extensions(region: int | None, clock_us: int) -> tuple[Tlv, ...]:
    """The extensions of a stream where the picture is split; ``region`` is None for what belongs to none."""
    clock = Tlv(CLOCK_RECORD, clock_us.to_bytes(8, "big", signed=True))
    return (clock,) if region is None else (Tlv(REGION_RECORD, bytes((region,))), clock)


def region_of(stream: SealedStream) -> int | None:
    """The region whose tile the stream shows; None if it belongs to none.

    Raises:
        Malformed: the extension has another length than 1.
    """
    body = _body(stream, REGION_RECORD, 1)
    return body[0] if body else None


def clock_of(stream: SealedStream) -> int | None:
    """Microseconds from the packets' own time to the time of capture; None if the stream does not say.

    Raises:
        Malformed: the extension has another length than 8.
    """
    body = _body(stream, CLOCK_RECORD, 8)
    return int.from_bytes(body, "big", signed=True) if body else None


def stream_extensions(rotation_degrees: int, reorder_depth: int) -> tuple[Tlv, ...]:
    """The extensions for these values; none for zeros."""
    extensions: list[Tlv] = []
    if rotation_degrees:
        extensions.append(Tlv(ROTATION_RECORD, rotation_degrees.to_bytes(2, "big", signed=True)))
    if reorder_depth:
        extensions.append(Tlv(REORDER_RECORD, bytes([reorder_depth])))
    return tuple(extensions)


def rotation_of(stream: SealedStream) -> int:
    """Degrees counter-clockwise, 0 if the stream says nothing.

    Raises:
        Malformed: the extension has another length than 2.
    """
    return int.from_bytes(_body(stream, ROTATION_RECORD, 2), "big", signed=True)


def reorder_depth_of(stream: SealedStream) -> int:
    """Pictures that a decoder holds back, 0 if the stream says nothing.

    Raises:
        Malformed: the extension has another length than 1.
    """
    return int.from_bytes(_body(stream, REORDER_RECORD, 1), "big")


def _body(stream: SealedStream, kind: int, num_bytes: int) -> bytes:
    for extension in stream.extensions:
        if extension.kind == kind:
            if len(extension.body) != num_bytes:
                message = f"stream extension {kind:#04x}: {len(extension.body)} bytes, expected {num_bytes}"
                raise Malformed(message)
            return extension.body
    return b""
