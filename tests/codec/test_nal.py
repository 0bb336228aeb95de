from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed, Truncated
from codec.limits import Limits
from codec.nal import (
    AvcConfig,
    escape,
    is_picture_nal,
    join_annexb,
    join_avcc,
    nal_type,
    parameter_sets,
    split_annexb,
    split_avcc,
    unescape,
)
from tests.support.streams import PPS, SPS

# Zeros and small numbers are where emulation prevention happens.
RBSP = st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 0x80, 0xFF]), max_size=64).map(bytes)
NAL = RBSP.map(lambda rbsp: b"\x65" + escape(rbsp + b"\x80"))


def _escape_by_the_standard(rbsp: bytes) -> bytes:
    """nal_unit() of H.264, 7.3.1, as a byte-wise state machine."""
    out, zeros = bytearray(), 0
    for byte in rbsp:
        if zeros == 2 and byte <= 3:
            out.append(3)
            zeros = 0
        out.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return bytes(out)


def _unescape_by_the_standard(payload: bytes) -> bytes:
    out, zeros = bytearray(), 0
    for byte in payload:
        if zeros >= 2 and byte == 3:
            zeros = 0
            continue
        out.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return bytes(out)


@pytest.mark.parametrize(
    ("rbsp", "payload"),
    [
        ("000000", "00000300"),
        ("000001", "00000301"),
        ("000002", "00000302"),
        ("000003", "00000303"),
        ("000004", "000004"),
        ("0000000000", "00000300000300"),
        ("00000300000380", "0000030300000303" + "80"),
        ("ff000080", "ff000080"),
        ("", ""),
    ],
)
def test_emulation_prevention_of_known_cases(rbsp: str, payload: str) -> None:
    assert escape(bytes.fromhex(rbsp)).hex() == payload
    assert unescape(bytes.fromhex(payload)).hex() == rbsp


@given(RBSP)
def test_escape_agrees_with_the_state_machine_of_the_standard(rbsp: bytes) -> None:
    payload = escape(rbsp)
    assert payload == _escape_by_the_standard(rbsp)
    assert not any(payload[i : i + 2] == b"\0\0" and payload[i + 2] < 3 for i in range(len(payload) - 2))
    assert unescape(payload) == rbsp


@given(st.binary(max_size=200) | RBSP)
def test_unescape_agrees_with_the_state_machine_on_any_bytes(payload: bytes) -> None:
    assert unescape(payload) == _unescape_by_the_standard(payload)


@given(st.lists(NAL, max_size=8))
def test_both_framings_give_the_nal_units_back(nals: list[bytes]) -> None:
    assert split_annexb(join_annexb(nals)) == tuple(nals)
    assert split_avcc(join_avcc(nals), 4) == tuple(nals)


def test_start_codes_of_any_length_and_trailing_zeros_make_no_difference() -> None:
    assert split_annexb(b"\0\0\0\0\1\x67\x42\0\0\0\0\1\x68\xce\0\0\1\x65\x88\0\0") == (
        b"\x67\x42",
        b"\x68\xce",
        b"\x65\x88",
    )


def test_short_lengths_are_read() -> None:
    assert split_avcc(b"\x02\x65\x88\x01\x41", 1) == (b"\x65\x88", b"\x41")
    assert split_avcc(b"\x00\x02\x65\x88", 2) == (b"\x65\x88",)


def test_bytes_before_the_first_start_code_are_refused() -> None:
    for data in (b"\x01\0\0\1\x65", b"\x65\x88"):
        with pytest.raises(Malformed, match="no start code"):
            split_annexb(data)


def test_a_length_past_the_end_is_refused_with_both_numbers() -> None:
    with pytest.raises(Truncated, match="needs 5 bytes at offset 4, 1 left"):
        split_avcc(b"\0\0\0\5\x65", 4)


def test_too_many_nal_units_or_bytes_are_refused() -> None:
    limits = Limits(max_nals_per_unit=2, max_unit_bytes=20)
    with pytest.raises(LimitExceeded, match="more than 2 NAL units"):
        split_annexb(join_annexb([b"\x65"] * 3), limits)
    with pytest.raises(LimitExceeded, match="limit is 20"):
        split_annexb(bytes(21), limits)


@given(st.binary(max_size=300), st.sampled_from([1, 2, 4]))
def test_random_bytes_raise_nothing_but_format_errors(data: bytes, length_size: int) -> None:
    for parse in (split_annexb, lambda d: split_avcc(d, length_size), AvcConfig.parse, parameter_sets):
        try:
            parse(data)
        except FormatError:
            continue


def test_picture_nal_units_are_all_but_six_to_twelve() -> None:
    assert [t for t in range(32) if not is_picture_nal(bytes([t]))] == [6, 7, 8, 9, 10, 11, 12]
    assert nal_type(b"\x65") == nal_type(b"\x25") == 5


def test_avcc_configuration_round_trip() -> None:
    config = AvcConfig(4, (SPS,), (PPS,))
    assert AvcConfig.parse(bytes(config)) == config
    assert bytes(config)[:6].hex() == "0142c01fffe1"
    # Four more bytes follow for the high profiles (14496-15, 5.3.3.1.2).
    assert AvcConfig.parse(bytes(config) + bytes.fromhex("fdf8f800")) == config


def test_parameter_sets_come_out_of_both_kinds_of_extradata() -> None:
    assert parameter_sets(bytes(AvcConfig(4, (SPS,), (PPS,)))) == (SPS, PPS)
    assert parameter_sets(join_annexb([SPS, PPS, b"\x06\x05\x01\x00\x80"])) == (SPS, PPS)
    assert parameter_sets(b"") == ()


@pytest.mark.parametrize(
    "damage", [b"\x02" + bytes(6), b"\x01\x42\xc0\x1f\xfe\xe0\x00", b"\x01\x42\xc0\x1f\xff\xe1\x00\x09\x67"]
)
def test_a_damaged_avcc_configuration_is_refused(damage: bytes) -> None:
    with pytest.raises(FormatError):
        AvcConfig.parse(damage)


def test_an_avcc_configuration_needs_an_sps() -> None:
    with pytest.raises(Malformed, match="SPS"):
        bytes(AvcConfig(4, (), (PPS,)))
