"""The sealed byte stream of a segment: STREAM, PACKET, PAD and END records (docs/format.md, section 7)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction

from base.errors import Malformed, UsageError
from codec.limits import DEFAULT_LIMITS, Limits
from codec.reader import Reader, Tlv, pack_block, read_tlvs, refuse_critical

_NO_TIME = -(2**63)
_PACKET_HEAD = struct.Struct(">HBqqq")
_KEY = 1
_U32_MAX = 2**32 - 1


class RecordKind(IntEnum):
    """Record types of the sealed byte stream; the high bit marks critical ones."""

    STREAM = 0x81
    PACKET = 0x82
    PAD = 0x03
    END = 0x84


class StreamKind(IntEnum):
    """What a sealed stream holds."""

    VIDEO = 1
    AUDIO = 2
    OTHER = 3


@dataclass(frozen=True, slots=True)
class SealedStream:
    """What a decoder needs to know about one elementary stream of the original.

    Attributes:
        index: 0..65535, unique within the segment; packets refer to it.
        codec: ffmpeg's codec name, such as ``h264``, ``hevc``, ``av1``, ``ffv1``, ``aac``.
        time_base: seconds per tick of the packets' times.
        width: pixels, as height; 0 if this is not video.
        pixel_format: ffmpeg's name, such as ``yuv420p``; empty if unknown or not video.
        sample_aspect_ratio: of one pixel; 0 if unknown.
        frame_rate: nominal frames per second; 0 if unknown.
        color_range: ffmpeg's number (0 unspecified, 1 limited, 2 full).
        color_primaries: ITU-T H.273 code point, as transfer and matrix; 2 if unspecified.
        sample_rate: audio samples per second; 0 if this is not audio.
        channel_layout: ffmpeg's name, such as ``stereo``; empty if this is not audio.
        extradata: the codec's global header (avcC, AudioSpecificConfig, ...).
    """

    index: int
    kind: StreamKind
    codec: str
    time_base: Fraction
    width: int = 0
    height: int = 0
    pixel_format: str = ""
    sample_aspect_ratio: Fraction = Fraction(0)
    frame_rate: Fraction = Fraction(0)
    color_range: int = 0
    color_primaries: int = 2
    color_transfer: int = 2
    color_matrix: int = 2
    sample_rate: int = 0
    channel_layout: str = ""
    extradata: bytes = field(default=b"", repr=False)
    extensions: tuple[Tlv, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.time_base <= 0:
            message = f"stream {self.index}: time base is {self.time_base}, expected more than 0"
            raise UsageError(message)

    @classmethod
    def parse(cls, body: bytes, limits: Limits = DEFAULT_LIMITS) -> SealedStream:
        """Read the body of a STREAM record.

        Raises:
            FormatError: it is damaged or above the limits.
        """
        reader = Reader(body, "STREAM record")
        return cls(
            index=reader.unsigned(2, "index"),
            kind=_stream_kind(reader.unsigned(1, "kind")),
            codec=reader.name("codec"),
            time_base=_fraction(reader, "time base", allow_zero=False),
            width=reader.unsigned(4, "width"),
            height=reader.unsigned(4, "height"),
            pixel_format=reader.name("pixel format"),
            sample_aspect_ratio=_fraction(reader, "sample aspect ratio"),
            frame_rate=_fraction(reader, "frame rate"),
            color_range=reader.unsigned(1, "color range"),
            color_primaries=reader.unsigned(1, "color primaries"),
            color_transfer=reader.unsigned(1, "color transfer"),
            color_matrix=reader.unsigned(1, "color matrix"),
            sample_rate=reader.unsigned(4, "sample rate"),
            channel_layout=reader.name("channel layout"),
            extradata=reader.block(4, "extradata", limits.max_extradata_bytes),
            extensions=read_extensions(reader, limits),
        )

    def __bytes__(self) -> bytes:
        parts = (
            struct.pack(">HB", self.index, self.kind),
            _pack_name(self.codec),
            _pack_fraction(self.time_base),
            struct.pack(">II", self.width, self.height),
            _pack_name(self.pixel_format),
            _pack_fraction(self.sample_aspect_ratio),
            _pack_fraction(self.frame_rate),
            bytes((self.color_range, self.color_primaries, self.color_transfer, self.color_matrix)),
            struct.pack(">I", self.sample_rate),
            _pack_name(self.channel_layout),
            pack_block(4, self.extradata),
            *(bytes(extension) for extension in self.extensions),
        )
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class SealedPacket:
    """One coded packet of the original, as the demuxer or encoder gave it.

    Attributes:
        is_key: decoding may start here.
        pts: presentation time in ticks of the stream's time base, as dts and duration; None if unknown.
        data: the payload, bit for bit.
    """

    stream_index: int
    is_key: bool
    pts: int | None
    dts: int | None
    duration: int | None
    data: bytes = field(repr=False)

    @classmethod
    def parse(cls, body: bytes) -> SealedPacket:
        """Read the body of a PACKET record.

        Raises:
            FormatError: it is damaged.
        """
        reader = Reader(body, "PACKET record")
        head = reader.take(_PACKET_HEAD.size, "head")
        stream_index, flags, pts, dts, duration = _PACKET_HEAD.unpack(head)
        if flags & ~_KEY:
            message = f"PACKET record: flags are {flags:#04x}, only bit 0 is defined"
            raise Malformed(message)
        return cls(
            stream_index=stream_index,
            is_key=bool(flags & _KEY),
            pts=_time(pts),
            dts=_time(dts),
            duration=_time(duration),
            data=reader.take(reader.remaining, "data"),
        )

    def __bytes__(self) -> bytes:
        times = (_NO_TIME if time is None else time for time in (self.pts, self.dts, self.duration))
        return _PACKET_HEAD.pack(self.stream_index, _KEY if self.is_key else 0, *times) + self.data


def stream_record(stream: SealedStream) -> bytes:
    """The STREAM record, head included."""
    return bytes(Tlv(RecordKind.STREAM, bytes(stream)))


def packet_record(packet: SealedPacket) -> bytes:
    """The PACKET record, head included."""
    return bytes(Tlv(RecordKind.PACKET, bytes(packet)))


def end_record(num_records: int) -> bytes:
    """The END record after ``num_records`` others of any type."""
    return bytes(Tlv(RecordKind.END, num_records.to_bytes(4, "big")))


def pack_stream(streams: Iterable[SealedStream], packets: Iterable[SealedPacket]) -> bytes:
    """A complete sealed byte stream."""
    records = [stream_record(stream) for stream in streams] + [packet_record(packet) for packet in packets]
    return b"".join(records) + end_record(len(records))


def read_extensions(reader: Reader, limits: Limits, known: frozenset[int] = frozenset()) -> tuple[Tlv, ...]:
    """The records behind the fields of a HEADER or STREAM; ``known``: the critical ones that it may have.

    Raises:
        UnknownVersion: another one of them is critical.
    """
    extensions = tuple(read_tlvs(reader, limits.max_header_bytes, limits.max_extensions))
    for extension in extensions:
        if extension.kind not in known:
            refuse_critical(extension.kind, reader.what)
    return extensions


def _time(ticks: int) -> int | None:
    return None if ticks == _NO_TIME else ticks


def _stream_kind(value: int) -> StreamKind:
    try:
        return StreamKind(value)
    except ValueError:
        message = f"STREAM record: kind is {value}, expected 1 to 3"
        raise Malformed(message) from None


def _fraction(reader: Reader, field_name: str, *, allow_zero: bool = True) -> Fraction:
    numerator = reader.unsigned(4, field_name)
    denominator = reader.unsigned(4, field_name)
    if not denominator or (not numerator and not allow_zero):
        message = f"{reader.what}: {field_name} is {numerator}/{denominator}"
        raise Malformed(message)
    return Fraction(numerator, denominator)


def _pack_fraction(value: Fraction) -> bytes:
    if not 0 <= value.numerator <= _U32_MAX or value.denominator > _U32_MAX:
        message = f"{value}: does not fit two 32-bit numbers"
        raise UsageError(message)
    return struct.pack(">II", value.numerator, value.denominator)


def _pack_name(name: str) -> bytes:
    if len(name) > 255 or not all(" " <= character <= "~" for character in name):
        message = f"name in a STREAM record: expected up to 255 printable ASCII characters, got {name!r}"
        raise UsageError(message)
    return pack_block(1, name.encode("ascii"))
