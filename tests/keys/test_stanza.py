from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed, Truncated
from keys import Stanza
from keys.suite import Suite

STANZAS = st.builds(
    Stanza, st.binary(min_size=16, max_size=16), st.integers(max(Suite) + 1, 255), st.binary(max_size=4096)
) | st.builds(
    lambda key_id, suite, byte: Stanza(key_id, suite.value, bytes([byte]) * suite.wrapped_bytes),
    st.binary(min_size=16, max_size=16),
    st.sampled_from(Suite),
    st.integers(0, 255),
)


@given(STANZAS, st.binary(max_size=40))
def test_what_is_written_is_read_back_and_the_rest_left(stanza: Stanza, rest: bytes) -> None:
    assert Stanza.parse(bytes(stanza) + rest) == (stanza, rest)


@given(st.binary(max_size=1300))
def test_random_bytes_raise_only_format_errors_or_are_canonical(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        stanza, rest = Stanza.parse(data)
        assert bytes(stanza) + rest == data


def test_the_layout_is_the_documented_one() -> None:
    assert (
        bytes(Stanza(b"0123456789abcdef", 9, b"xyz")) == b"0123456789abcdef" + b"\x09" + b"\x00\x03" + b"xyz"
    )


@pytest.mark.parametrize("length", range(16 + 1 + 2 + 3))
def test_every_shorter_input_is_truncated(length: int) -> None:
    with pytest.raises(Truncated):
        Stanza.parse(bytes(Stanza(bytes(16), 9, b"xyz"))[:length])


def test_a_blob_above_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(LimitExceeded, match="limit is 4096"):
        Stanza.parse(bytes(16) + b"\x09" + (4097).to_bytes(2, "big"))
    with pytest.raises(LimitExceeded, match="limit is 4096"):
        Stanza(bytes(16), 9, bytes(4097))


@pytest.mark.parametrize("suite", Suite)
def test_a_blob_of_a_known_suite_has_the_length_of_the_suite(suite: Suite) -> None:
    with pytest.raises(Malformed, match=f"expected a blob of {suite.wrapped_bytes} bytes"):
        Stanza(bytes(16), suite.value, bytes(suite.wrapped_bytes - 1))


def test_ids_and_suites_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Malformed, match="16 bytes"):
        Stanza(bytes(15), 9, b"")
    with pytest.raises(Malformed, match="0 to 255"):
        Stanza(bytes(16), 256, b"")
