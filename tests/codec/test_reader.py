from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed, Truncated, UnknownVersion
from codec.reader import Reader, Tlv, read_tlvs, refuse_critical


@given(st.lists(st.builds(Tlv, st.integers(0, 255), st.binary(max_size=40)), max_size=10))
def test_records_come_back_in_order(records: list[Tlv]) -> None:
    data = b"".join(bytes(record) for record in records)
    assert list(read_tlvs(Reader(data, "test"), 40, 10)) == records


@given(st.binary(max_size=100))
def test_random_bytes_raise_nothing_but_format_errors(data: bytes) -> None:
    try:
        list(read_tlvs(Reader(data, "test"), 50, 5))
    except FormatError:
        return


def test_a_length_above_the_maximum_is_refused_before_it_is_read() -> None:
    with pytest.raises(LimitExceeded, match="is 4294967295, limit is 100"):
        list(read_tlvs(Reader(b"\x01\xff\xff\xff\xff", "test"), 100, 5))


def test_more_records_than_allowed_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="more than 2 records"):
        list(read_tlvs(Reader(bytes(Tlv(1, b"")) * 3, "test"), 10, 2))


def test_truncation_names_field_offset_and_lack() -> None:
    reader = Reader(b"\0\1", "HEADER record")
    reader.unsigned(1, "version")
    with pytest.raises(Truncated, match="HEADER record: width needs 4 bytes at offset 1, 1 left"):
        reader.unsigned(4, "width")


def test_leftover_bytes_are_refused() -> None:
    with pytest.raises(Malformed, match="2 bytes too many"):
        Reader(b"ab", "test").end()


@pytest.mark.parametrize("name", [b"\x01\x80", b"\x02a\n", b"\x01\x00"])
def test_names_are_printable_ascii(name: bytes) -> None:
    with pytest.raises(Malformed, match="printable"):
        Reader(name, "test").name("codec")


def test_only_critical_unknown_records_are_refused() -> None:
    refuse_critical(0x7F, "META")
    with pytest.raises(UnknownVersion, match="0x80"):
        refuse_critical(0x80, "META")


@given(st.integers(0, 300), st.binary(max_size=5))
def test_a_run_of_ff_ends_at_the_first_other_byte(length: int, after: bytes) -> None:
    rest = after.lstrip(b"\xff")
    reader = Reader(b"\xff" * length + rest, "test")
    if rest:
        assert reader.skip_ff("size") == length
        assert reader.take(reader.remaining, "rest") == rest
    else:
        with pytest.raises(Truncated, match="size at offset 0 has no end"):
            reader.skip_ff("size")
