from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed, UnknownVersion, UsageError
from codec.limits import Limits
from codec.packets import SealedPacket, SealedStream, StreamKind, end_record, packet_record
from codec.reader import Tlv
from tests.support.streams import AUDIO, VIDEO

U32 = st.integers(0, 2**32 - 1)
TIMES = st.none() | st.integers(-(2**63) + 1, 2**63 - 1)
NAMES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40)
RATIOS = st.builds(Fraction, U32, st.integers(1, 2**32 - 1))
BYTE = st.integers(0, 255)
STREAMS = st.builds(
    SealedStream,
    index=st.integers(0, 65_535),
    kind=st.sampled_from(StreamKind),
    codec=NAMES,
    time_base=st.builds(Fraction, st.integers(1, 2**32 - 1), st.integers(1, 2**32 - 1)),
    width=U32,
    height=U32,
    pixel_format=NAMES,
    sample_aspect_ratio=RATIOS,
    frame_rate=RATIOS,
    color_range=BYTE,
    color_primaries=BYTE,
    color_transfer=BYTE,
    color_matrix=BYTE,
    sample_rate=U32,
    channel_layout=NAMES,
    extradata=st.binary(max_size=60),
    extensions=st.lists(st.builds(Tlv, st.integers(0, 127), st.binary(max_size=9)), max_size=3).map(tuple),
)
PACKETS = st.builds(
    SealedPacket, st.integers(0, 65_535), st.booleans(), TIMES, TIMES, TIMES, st.binary(max_size=60)
)


@given(STREAMS)
def test_a_stream_record_comes_back(stream: SealedStream) -> None:
    assert SealedStream.parse(bytes(stream)) == stream
    assert bytes(SealedStream.parse(bytes(stream))) == bytes(stream)


@given(PACKETS)
def test_a_packet_record_comes_back(packet: SealedPacket) -> None:
    assert SealedPacket.parse(bytes(packet)) == packet


@given(st.binary(max_size=120))
def test_random_bytes_raise_nothing_but_format_errors(data: bytes) -> None:
    for parse in (SealedStream.parse, SealedPacket.parse):
        try:
            parse(data)
        except FormatError:
            continue


@given(STREAMS, st.data())
def test_a_damaged_stream_record_raises_nothing_but_format_errors(
    stream: SealedStream, data: st.DataObject
) -> None:
    body = bytearray(bytes(stream))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        SealedStream.parse(bytes(body))
    except FormatError:
        return


def test_the_bytes_of_a_packet_record() -> None:
    record = packet_record(SealedPacket(1, True, 2, None, 3, b"abc"))
    assert record.hex() == ("820000001e000101000000000000000280000000000000000000000000000003616263")
    assert end_record(7).hex() == "840000000400000007"


def test_unknown_packet_flags_and_stream_kinds_are_refused() -> None:
    body = bytearray(bytes(SealedPacket(0, True, 0, 0, 0, b"")))
    body[2] = 2
    with pytest.raises(Malformed, match="flags are 0x02"):
        SealedPacket.parse(bytes(body))
    stream = bytearray(bytes(AUDIO))
    stream[2] = 9
    with pytest.raises(Malformed, match="kind is 9"):
        SealedStream.parse(bytes(stream))


def test_ratios_without_a_denominator_are_refused() -> None:
    body = bytes(VIDEO)
    at = 3 + 1 + len(VIDEO.codec)
    with pytest.raises(Malformed, match="time base is 1/0"):
        SealedStream.parse(body[: at + 4] + bytes(4) + body[at + 8 :])
    with pytest.raises(Malformed, match="time base is 0/"):
        SealedStream.parse(body[:at] + bytes(4) + body[at + 4 :])


def test_extradata_above_the_limit_is_refused() -> None:
    body = bytes(replace(VIDEO, extradata=bytes(100)))
    with pytest.raises(LimitExceeded, match="extradata"):
        SealedStream.parse(body, Limits(max_extradata_bytes=99))


def test_optional_extensions_are_kept_and_critical_ones_refused() -> None:
    optional = replace(VIDEO, extensions=(Tlv(0x11, b"x"),))
    assert SealedStream.parse(bytes(optional)).extensions == (Tlv(0x11, b"x"),)
    with pytest.raises(UnknownVersion, match="0x91"):
        SealedStream.parse(bytes(VIDEO) + bytes(Tlv(0x91, b"x")))


def test_values_that_do_not_fit_are_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match="time base is 0"):
        replace(VIDEO, time_base=Fraction(0))
    with pytest.raises(UsageError, match="32-bit"):
        bytes(replace(VIDEO, frame_rate=Fraction(2**33, 3)))
    with pytest.raises(UsageError, match="printable ASCII"):
        bytes(replace(VIDEO, channel_layout="stéréo"))
