from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed, UnknownVersion
from codec.limits import Limits
from codec.reader import Tlv
from codec.records import FrameRecord, Meta, SealedMode, SegmentHeader, SignatureRecord, UnitDigests
from keys import Stanza

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
BYTE = st.integers(0, 255)
ID = st.binary(min_size=16, max_size=16)
DIGEST = st.binary(min_size=32, max_size=32)
STANZAS = st.builds(Stanza, ID, st.integers(4, 255), st.binary(max_size=90)) | st.builds(
    Stanza, ID, st.just(1), st.binary(min_size=80, max_size=80)
)
FRAMES = st.builds(FrameRecord, ID, U64, U32, I64, BYTE)
HEADERS = st.builds(
    SegmentHeader,
    camera_id=ID,
    stream_id=ID,
    epoch_id=ID,
    segment_index=U64,
    start_us=I64,
    previous_digest=DIGEST,
    width=U32,
    height=U32,
    time_base=st.builds(Fraction, st.integers(1, 2**32 - 1), st.integers(1, 2**32 - 1)),
    parameter_digest=DIGEST,
    model_id=st.binary(min_size=8, max_size=8),
    strength=BYTE,
    sealed_mode=st.sampled_from(SealedMode),
    starts_with_key=st.booleans(),
    stanzas=st.lists(STANZAS, max_size=4).map(tuple),
    extensions=st.lists(st.builds(Tlv, st.integers(0, 127), st.binary(max_size=9)), max_size=3).map(tuple),
)
SIGNATURES = st.builds(
    SignatureRecord,
    U64,
    DIGEST,
    st.lists(st.builds(UnitDigests, DIGEST, DIGEST), max_size=5).map(tuple),
    st.binary(min_size=64, max_size=64),
)
HEADER = SegmentHeader(
    camera_id=b"c" * 16,
    stream_id=b"s" * 16,
    epoch_id=b"e" * 16,
    segment_index=5,
    start_us=-1,
    previous_digest=b"p" * 32,
    width=1280,
    height=720,
    time_base=Fraction(1, 90_000),
    parameter_digest=b"q" * 32,
    model_id=b"modelid!",
    strength=3,
    sealed_mode=SealedMode.COPY,
    starts_with_key=True,
    stanzas=(Stanza(b"r" * 16, 1, b"w" * 80),),
)


@given(FRAMES)
def test_a_frame_record_comes_back(frame: FrameRecord) -> None:
    assert FrameRecord.parse(bytes(frame)) == frame
    assert len(bytes(frame)) == 37


@given(HEADERS)
def test_a_header_comes_back(header: SegmentHeader) -> None:
    assert SegmentHeader.parse(bytes(header)) == header
    assert bytes(SegmentHeader.parse(bytes(header))) == bytes(header)


@given(SIGNATURES)
def test_a_signature_comes_back(signature: SignatureRecord) -> None:
    assert SignatureRecord.parse(bytes(signature)) == signature


@given(FRAMES, st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=50))
def test_a_meta_message_comes_back(frame: FrameRecord, header: bytes | None, signature: bytes | None) -> None:
    meta = Meta(frame, header, signature)
    assert Meta.parse(bytes(meta)) == meta


@given(st.binary(max_size=400))
def test_random_bytes_raise_nothing_but_format_errors(data: bytes) -> None:
    for parse in (FrameRecord.parse, SegmentHeader.parse, SignatureRecord.parse, Meta.parse):
        for body in (data, b"\x01" + data):
            try:
                parse(body)
            except FormatError:
                continue


@given(HEADERS, st.data())
def test_a_damaged_header_raises_nothing_but_format_errors(
    header: SegmentHeader, data: st.DataObject
) -> None:
    body = bytearray(bytes(header))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        SegmentHeader.parse(bytes(body[: data.draw(st.integers(0, len(body)))]))
    except FormatError:
        return


def test_the_bytes_of_a_header() -> None:
    assert bytes(HEADER) == b"".join(
        (
            b"\x01" + b"c" * 16 + b"s" * 16 + b"e" * 16,
            bytes.fromhex("0000000000000005ffffffffffffffff") + b"p" * 32,
            bytes.fromhex("00000500000002d00000000100015f90") + b"q" * 32,
            b"modelid!" + bytes.fromhex("03010101"),
            b"r" * 16 + b"\x01\x00\x50" + b"w" * 80,
        )
    )


@pytest.mark.parametrize(
    ("at", "value", "error", "match"),
    [
        (0, 2, UnknownVersion, "version is 2, this release reads 1"),
        (154, 6, UnknownVersion, "sealed mode is 6"),
        (155, 2, UnknownVersion, "flags are 0x02"),
        (156, 65, LimitExceeded, "is 65, limit is 64"),
    ],
)
def test_header_fields_of_the_future_are_refused(
    at: int, value: int, error: type[FormatError], match: str
) -> None:
    body = bytearray(bytes(HEADER))
    body[at] = value
    with pytest.raises(error, match=match):
        SegmentHeader.parse(bytes(body))


def test_a_header_above_its_limit_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="limit is 100"):
        SegmentHeader.parse(bytes(HEADER), Limits(max_header_bytes=100))


def test_a_critical_extension_is_refused_and_an_optional_one_kept() -> None:
    optional = replace(HEADER, extensions=(Tlv(0x20, b"later"),))
    assert SegmentHeader.parse(bytes(optional)) == optional
    with pytest.raises(UnknownVersion, match="0xa0"):
        SegmentHeader.parse(bytes(HEADER) + bytes(Tlv(0xA0, b"later")))


def test_meta_needs_exactly_one_frame_record() -> None:
    frame = bytes(Tlv(0x81, bytes(37)))
    with pytest.raises(Malformed, match="no FRAME"):
        Meta.parse(bytes(Tlv(0x82, b"")))
    with pytest.raises(Malformed, match="comes twice"):
        Meta.parse(frame * 2)
    assert Meta.parse(frame + bytes(Tlv(0x05, b"skipped"))) == Meta.parse(frame)
    with pytest.raises(UnknownVersion, match="0x85"):
        Meta.parse(frame + bytes(Tlv(0x85, b"")))


def test_a_signature_over_more_units_than_allowed_is_refused_before_it_is_read() -> None:
    body = bytes(8) + bytes(32) + b"\xff\xff\xff\xff"
    with pytest.raises(LimitExceeded, match="limit is 10000"):
        SignatureRecord.parse(body)
