"""H.264 NAL units: Annex-B and avcC framing, canonical form, emulation prevention.

ITU-T H.264, 7.3.1, 7.4.1 and Annex B; ISO/IEC 14496-15, 5.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from base.errors import LimitExceeded, Malformed
from codec.limits import DEFAULT_LIMITS, Limits
from codec.reader import Reader, pack_block

START_CODE = b"\x00\x00\x00\x01"
_SHORT_START_CODE = b"\x00\x00\x01"
_NEEDS_ESCAPE = re.compile(rb"\x00\x00(?=[\x00-\x03])")
_ESCAPED = b"\x00\x00\x03"


class NalType(IntEnum):
    """The NAL unit types that we name (H.264 table 7-1)."""

    SLICE = 1
    IDR = 5
    SEI = 6
    SPS = 7
    PPS = 8
    AUD = 9
    END_OF_SEQUENCE = 10
    END_OF_STREAM = 11
    FILLER = 12


def nal_type(nal: bytes) -> int:
    """nal_unit_type, 0..31."""
    return nal[0] & 0x1F


def is_picture_nal(nal: bytes) -> bool:
    """Whether the NAL is part of the picture and therefore signed.

    Everything is, but what muxers add, drop and move: SEI, SPS, PPS, access unit
    delimiters, end marks and filler (types 6 to 12). SPS and PPS are pinned by the
    segment's header instead.
    """
    return not NalType.SEI <= nal_type(nal) <= NalType.FILLER


def split_annexb(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, ...]:
    """NAL units of an Annex-B byte stream, without start codes and trailing zero bytes.

    Raises:
        Malformed: bytes that are not zero lie before the first start code.
        LimitExceeded: too many bytes or NAL units.
    """
    _check_size(data, limits)
    start = data.find(_SHORT_START_CODE)
    if (data if start < 0 else data[:start]).strip(b"\x00"):
        message = "Annex-B data: no start code at its beginning"
        raise Malformed(message)
    nals: list[bytes] = []
    while start >= 0:
        following = data.find(_SHORT_START_CODE, start + 3)
        _append(nals, data[start + 3 : following if following >= 0 else len(data)], limits)
        start = following
    return tuple(nals)


def join_annexb(nals: Iterable[bytes]) -> bytes:
    """Annex-B byte stream with four-byte start codes."""
    return b"".join(START_CODE + nal for nal in nals)


def split_avcc(data: bytes, length_size: int, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, ...]:
    """NAL units of an avcC sample whose lengths have ``length_size`` (1, 2 or 4) bytes.

    Raises:
        Truncated: a length points past the end.
    """
    _check_size(data, limits)
    reader = Reader(data, "avcC sample")
    nals: list[bytes] = []
    while reader.remaining:
        _append(nals, reader.block(length_size, "NAL unit", limits.max_unit_bytes), limits)
    return tuple(nals)


def join_avcc(nals: Iterable[bytes]) -> bytes:
    """An avcC sample with four-byte lengths."""
    return b"".join(pack_block(4, nal) for nal in nals)


def _check_size(data: bytes, limits: Limits) -> None:
    if len(data) > limits.max_unit_bytes:
        message = f"access unit: {len(data)} bytes, limit is {limits.max_unit_bytes}"
        raise LimitExceeded(message)


def _append(nals: list[bytes], nal: bytes, limits: Limits) -> None:
    """Add the NAL in canonical form: it never ends in a zero byte (H.264, 7.4.1)."""
    nal = nal.rstrip(b"\x00")
    if not nal:
        return
    if len(nals) >= limits.max_nals_per_unit:
        message = f"access unit: more than {limits.max_nals_per_unit} NAL units"
        raise LimitExceeded(message)
    nals.append(nal)


def escape(rbsp: bytes) -> bytes:
    """Insert emulation prevention bytes: RBSP to NAL payload (H.264, 7.4.1.1).

    The RBSP ends in its stop bit, so that the payload does not end in a zero byte.
    """
    # The look-ahead leaves the third byte to the next match, as the counter of zeros in
    # the standard does: 00 00 00 00 00 becomes 00 00 03 00 00 03 00.
    return _NEEDS_ESCAPE.sub(_ESCAPED, rbsp)


def unescape(payload: bytes) -> bytes:
    """Remove emulation prevention bytes: NAL payload to RBSP."""
    return payload.replace(_ESCAPED, b"\x00\x00")


@dataclass(frozen=True, slots=True)
class AvcConfig:
    """AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.3.3.1), the extradata of MP4 and Matroska."""

    length_size: int
    sps: tuple[bytes, ...]
    pps: tuple[bytes, ...]

    @classmethod
    def parse(cls, data: bytes, limits: Limits = DEFAULT_LIMITS) -> AvcConfig:
        """Read the record; the high profiles' extension after it is ignored.

        Raises:
            FormatError: it is not such a record.
        """
        reader = Reader(data, "avcC")
        if reader.unsigned(1, "version") != 1:
            message = f"avcC: version is {data[0]}, expected 1"
            raise Malformed(message)
        reader.take(3, "profile and level")
        length_size = (reader.unsigned(1, "length size") & 3) + 1
        if length_size == 3:
            message = "avcC: length size 3 is reserved"
            raise Malformed(message)
        sps = cls._parameter_sets(reader, reader.unsigned(1, "number of SPS") & 0x1F, limits)
        pps = cls._parameter_sets(reader, reader.unsigned(1, "number of PPS"), limits)
        return cls(length_size, sps, pps)

    @staticmethod
    def _parameter_sets(reader: Reader, count: int, limits: Limits) -> tuple[bytes, ...]:
        if count > limits.max_parameter_sets:
            message = f"avcC: {count} parameter sets, limit is {limits.max_parameter_sets}"
            raise LimitExceeded(message)
        sets = (reader.block(2, "parameter set", 0xFFFF).rstrip(b"\x00") for _ in range(count))
        return tuple(nal for nal in sets if nal)

    def __bytes__(self) -> bytes:
        """The record for baseline, main and extended profile streams.

        Raises:
            Malformed: there is no SPS to take the profile from.
        """
        if not self.sps or len(self.sps[0]) < 4:
            message = "avcC: needs an SPS of at least 4 bytes"
            raise Malformed(message)
        head = bytes([1]) + self.sps[0][1:4] + bytes([0xFC | (self.length_size - 1), 0xE0 | len(self.sps)])
        sps = b"".join(pack_block(2, nal) for nal in self.sps)
        pps = b"".join(pack_block(2, nal) for nal in self.pps)
        return head + sps + bytes([len(self.pps)]) + pps


def parameter_sets(extradata: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, ...]:
    """SPS and PPS of a stream's extradata, which is an avcC record or Annex-B."""
    if extradata[:1] == b"\x01":
        config = AvcConfig.parse(extradata, limits)
        return config.sps + config.pps
    kept = (NalType.SPS, NalType.PPS)
    return tuple(nal for nal in split_annexb(extradata, limits) if nal_type(nal) in kept)
