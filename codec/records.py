"""The records of the META layer: FRAME, HEADER, SIGNATURE (docs/format.md, section 5)."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple, Self

from base.errors import LimitExceeded, Malformed, UnknownVersion
from codec.limits import DEFAULT_LIMITS, Limits
from codec.packets import read_extensions
from codec.pixels_record import PIXELS_RECORD, PixelsRecord
from codec.reader import Reader, Tlv, read_tlvs, refuse_critical
from codec.regions import REGIONS_RECORD, RegionGrid
from codec.sei import FORMAT_VERSION
from keys.labels import Label
from keys.stanza import Stanza

ID_BYTES = 16
DIGEST_BYTES = 32
MODEL_ID_BYTES = 8
SIGNATURE_BYTES = 64
ZERO_DIGEST = bytes(DIGEST_BYTES)
_FRAME = struct.Struct(">16sQIqB")
_STARTS_WITH_KEY = 1


class MetaKind(IntEnum):
    """Record types of the META layer; the high bit marks critical ones."""

    FRAME = 0x81
    HEADER = 0x82
    SIGNATURE = 0x83
    END_MARK = 0x04


class SealedMode(IntEnum):
    """How the original is coded in the sealed layer."""

    NONE = 0
    COPY = 1
    AV1 = 2
    HEVC = 3
    H264 = 4
    FFV1 = 5


_WHOLE_MODES = (SealedMode.NONE, SealedMode.COPY)  # nothing is coded here that could be split
_KNOWN_EXTENSIONS = frozenset(
    (
        PIXELS_RECORD,
        REGIONS_RECORD,
    )
)


@dataclass(frozen=True, slots=True)
class FrameRecord:
    """Which picture this is. In every access unit; its bytes are part of the unit's digest.

    Attributes:
        stream_id: 16 random bytes, drawn at every start of the camera process.
        frame_index: 0 for the segment's key frame.
        time_us: capture, Unix microseconds.
        num_chunks: SEALED messages in this unit.
    """

    stream_id: bytes
    segment_index: int
    frame_index: int
    time_us: int
    num_chunks: int

    @classmethod
    def parse(cls, body: bytes) -> FrameRecord:
        """Read the body of a FRAME record (37 bytes).

        Raises:
            FormatError: it has another length.
        """
        reader = Reader(body, "FRAME record")
        head = reader.take(_FRAME.size, "fields")
        reader.end()
        return cls(*_FRAME.unpack(head))

    def __bytes__(self) -> bytes:
        return _FRAME.pack(
            self.stream_id, self.segment_index, self.frame_index, self.time_us, self.num_chunks
        )


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """All that is needed to open one segment on its own; public, signed, in the key frame's unit.

    Attributes:
        camera_id: first 16 bytes of SHA-256 over label and the camera's public key.
        start_us: capture time of the first picture, Unix microseconds.
        previous_digest: SHA-256 of the SIGNATURE body of the segment before; zeros for a stream's first.
        width: of the protected picture in pixels, as height.
        time_base: of the protected video, for information.
        parameter_digest: pins SPS and PPS, see `parameter_digest`.
        model_id: first 8 bytes of the protector's SHA-256.
        strength: the protector's setting, 0..255.
        starts_with_key: the sealed video decodes without the segments before it.
        stanzas: the epoch key, wrapped to every recipient.
    """

    camera_id: bytes
    stream_id: bytes
    epoch_id: bytes
    segment_index: int
    start_us: int
    previous_digest: bytes
    width: int
    height: int
    time_base: Fraction
    parameter_digest: bytes
    model_id: bytes
    strength: int
    sealed_mode: SealedMode
    starts_with_key: bool
    stanzas: tuple[Stanza, ...] = ()
    extensions: tuple[Tlv, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, body: bytes, limits: Limits = DEFAULT_LIMITS) -> SegmentHeader:
        """Read the body of a HEADER record.

        Raises:
            UnknownVersion: another format version, sealed mode, or an unknown critical extension.
            FormatError: it is damaged or above the limits.
        """
        if len(body) > limits.max_header_bytes:
            message = f"HEADER record: {len(body)} bytes, limit is {limits.max_header_bytes}"
            raise LimitExceeded(message)
        reader = Reader(body, "HEADER record")
        version = reader.unsigned(1, "format version")
        if version != FORMAT_VERSION:
            message = f"HEADER record: format version is {version}, this release reads {FORMAT_VERSION}"
            raise UnknownVersion(message)
        return cls(
            camera_id=reader.take(ID_BYTES, "camera id"),
            stream_id=reader.take(ID_BYTES, "stream id"),
            epoch_id=reader.take(ID_BYTES, "epoch id"),
            segment_index=reader.unsigned(8, "segment index"),
            start_us=reader.i64("start time"),
            previous_digest=reader.take(DIGEST_BYTES, "previous signature digest"),
            width=reader.unsigned(4, "width"),
            height=reader.unsigned(4, "height"),
            time_base=_time_base(reader),
            parameter_digest=reader.take(DIGEST_BYTES, "parameter set digest"),
            model_id=reader.take(MODEL_ID_BYTES, "model id"),
            strength=reader.unsigned(1, "strength"),
            sealed_mode=_sealed_mode(reader.unsigned(1, "sealed mode")),
            starts_with_key=_flags(reader.unsigned(1, "flags")),
            stanzas=_stanzas(reader, limits),
            extensions=read_extensions(reader, limits, _KNOWN_EXTENSIONS),
        )._checked()

    def _checked(self) -> Self:
        """Read what the extensions say, so that a damaged one refuses the header."""
        if self.regions is not None and self.sealed_mode in _WHOLE_MODES:
            message = f"HEADER record: regions with sealed mode {self.sealed_mode.name}"
            raise Malformed(message)
        return self

    @property
    def regions(self) -> RegionGrid | None:
        """How the original is split into regions, each sealed under a key of its own; None: it is not.

        Raises:
            Malformed: the record is damaged or comes twice; not after `parse`.
        """
        body = self._extension(REGIONS_RECORD, "REGIONS")
        return None if body is None else RegionGrid.parse(body)

    @property
    def pixels(self) -> PixelsRecord | None:
        """How the original is hidden in the pixels as well; None: it is not.

        Raises:
            FormatError: the record is damaged, unknown or comes twice. Unlike a damaged REGIONS record that
                does not refuse the header: the sealed layer does not depend on it.
        """
        body = self._extension(PIXELS_RECORD, "PIXELS")
        return None if body is None else PixelsRecord.parse(body)

    def _extension(self, kind: int, name: str) -> bytes | None:
        bodies = [each.body for each in self.extensions if each.kind == kind]
        if len(bodies) > 1:
            raise Malformed(f"HEADER record: two {name} records")
        return bodies[0] if bodies else None

    def __bytes__(self) -> bytes:
        parts = (
            bytes([FORMAT_VERSION]),
            self.camera_id,
            self.stream_id,
            self.epoch_id,
            struct.pack(">Qq", self.segment_index, self.start_us),
            self.previous_digest,
            struct.pack(">IIII", self.width, self.height, *self.time_base.as_integer_ratio()),
            self.parameter_digest,
            self.model_id,
            bytes((self.strength, self.sealed_mode, _STARTS_WITH_KEY if self.starts_with_key else 0)),
            bytes([len(self.stanzas)]),
            *(bytes(stanza) for stanza in self.stanzas),
            *(bytes(extension) for extension in self.extensions),
        )
        return b"".join(parts)


class UnitDigests(NamedTuple):
    """What the signature says about one access unit."""

    picture: bytes
    chunks: bytes


@dataclass(frozen=True, slots=True)
class SignatureRecord:
    """The camera's signature over one whole segment; in the segment's last access unit."""

    segment_index: int
    header_digest: bytes
    units: tuple[UnitDigests, ...]
    signature: bytes

    @classmethod
    def parse(cls, body: bytes, limits: Limits = DEFAULT_LIMITS) -> SignatureRecord:
        """Read the body of a SIGNATURE record.

        Raises:
            FormatError: it is damaged or above the limits.
        """
        reader = Reader(body, "SIGNATURE record")
        segment_index = reader.unsigned(8, "segment index")
        header_digest = reader.take(DIGEST_BYTES, "header digest")
        count = reader.unsigned(4, "number of units", limits.max_frames_per_segment)
        units = tuple(
            UnitDigests(
                reader.take(DIGEST_BYTES, "picture digest"), reader.take(DIGEST_BYTES, "chunk digest")
            )
            for _ in range(count)
        )
        signature = reader.take(SIGNATURE_BYTES, "signature")
        reader.end()
        return cls(segment_index, header_digest, units, signature)

    def __bytes__(self) -> bytes:
        return self._signed_fields() + self.signature

    def _signed_fields(self) -> bytes:
        head = self.segment_index.to_bytes(8, "big") + self.header_digest + len(self.units).to_bytes(4, "big")
        return head + b"".join(part for unit in self.units for part in unit)

    @property
    def message(self) -> bytes:
        """What the camera signs: domain label and every field but the signature."""
        return Label.SEGMENT_SIGNATURE.value + self._signed_fields()

    @property
    def digest(self) -> bytes:
        """What the next segment's header repeats, chaining the two."""
        return hashlib.sha256(bytes(self)).digest()


def end_message(stream_id: bytes, segment_index: int, signature_digest: bytes) -> bytes:
    """What the camera signs to say that a segment is its stream's last; the END_MARK is the signature."""
    return Label.STREAM_END.value + stream_id + segment_index.to_bytes(8, "big") + signature_digest


@dataclass(frozen=True, slots=True)
class Meta:
    """The records of one META message. ``end_mark``: beside the SIGNATURE of a stream's last segment."""

    frame: FrameRecord
    header: bytes | None = None
    signature: bytes | None = None
    end_mark: bytes | None = None

    @classmethod
    def parse(cls, body: bytes, limits: Limits = DEFAULT_LIMITS) -> Meta:
        """Read the records; HEADER and SIGNATURE stay bytes, since their digests are over bytes.

        Raises:
            UnknownVersion: an unknown critical record.
            FormatError: FRAME is missing, a record comes twice, or one is damaged.
        """
        found: dict[int, bytes] = {}
        for record in read_tlvs(Reader(body, "META message"), limits.max_unit_bytes, limits.max_extensions):
            if record.kind not in MetaKind.__members__.values():
                refuse_critical(record.kind, "META message")
                continue
            if record.kind in found:
                message = f"META message: record {record.kind:#04x} comes twice"
                raise Malformed(message)
            found[record.kind] = record.body
        if MetaKind.FRAME not in found:
            message = "META message: no FRAME record"
            raise Malformed(message)
        frame = FrameRecord.parse(found[MetaKind.FRAME])
        return cls(
            frame,
            found.get(MetaKind.HEADER),
            found.get(MetaKind.SIGNATURE),
            found.get(MetaKind.END_MARK),
        )

    def __bytes__(self) -> bytes:
        records = [Tlv(MetaKind.FRAME, bytes(self.frame))]
        if self.header is not None:
            records.append(Tlv(MetaKind.HEADER, self.header))
        if self.signature is not None:
            records.append(Tlv(MetaKind.SIGNATURE, self.signature))
        if self.end_mark is not None:
            records.append(Tlv(MetaKind.END_MARK, self.end_mark))
        return b"".join(map(bytes, records))


def _stanzas(reader: Reader, limits: Limits) -> tuple[Stanza, ...]:
    count = reader.unsigned(1, "number of stanzas", limits.max_stanzas)
    return tuple(
        Stanza(
            reader.take(ID_BYTES, "recipient id"),
            reader.unsigned(1, "suite"),
            reader.block(2, "wrapped key", limits.max_stanza_bytes),
        )
        for _ in range(count)
    )


def _time_base(reader: Reader) -> Fraction:
    numerator, denominator = reader.unsigned(4, "time base"), reader.unsigned(4, "time base")
    if not numerator or not denominator:
        message = f"HEADER record: time base is {numerator}/{denominator}"
        raise Malformed(message)
    return Fraction(numerator, denominator)


def _sealed_mode(value: int) -> SealedMode:
    try:
        return SealedMode(value)
    except ValueError:
        message = f"HEADER record: sealed mode is {value}, this release knows 0 to 5"
        raise UnknownVersion(message) from None


def _flags(value: int) -> bool:
    if value & ~_STARTS_WITH_KEY:
        message = f"HEADER record: flags are {value:#04x}, only bit 0 is defined"
        raise UnknownVersion(message)
    return bool(value & _STARTS_WITH_KEY)
