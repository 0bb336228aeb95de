from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import FormatError, Malformed, UsageError
from forensics.canonical import JsonValue, canonical_json, parse_canonical

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def test_keys_are_sorted_by_utf16_code_units() -> None:
    """The example of RFC 8785 section 3.2.3: the emoji sorts before U+FB33."""
    value: dict[str, JsonValue] = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    order = [item for _, item in json.loads(canonical_json(value), object_pairs_hook=list)]
    assert order == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


def test_strings_are_escaped_as_rfc_8785_shows() -> None:
    """The string of RFC 8785 section 3.2.2."""
    assert (
        canonical_json("\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/")
        == b'"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'
    )


@settings(deadline=None)  # shared machines
@given(VALUES)
def test_what_was_written_reads_back(value: JsonValue) -> None:
    assert parse_canonical(canonical_json(value)) == value


@settings(deadline=None)  # shared machines
@given(st.binary(max_size=60))
def test_random_bytes_raise_only_format_errors(data: bytes) -> None:
    try:
        value = parse_canonical(data)
    except FormatError:
        return
    assert canonical_json(value) == data


@pytest.mark.parametrize(
    "data",
    [
        b'{"b":1,"a":2}',
        b'{"a":1, "b":2}',
        b'{"a":1,"a":1}',
        b'"\\u0041"',
        b"1.0",
        b"1e3",
        b"NaN",
        b"9007199254740992",
        b"-0",
        b'"\\ud800"',
        b"[" * 5000,
        b"\xff",
    ],
)
def test_other_spellings_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_canonical(data)


@pytest.mark.parametrize("value", [1.5, {1: 2}, b"bytes", "\ud800", 2**53, {"a": object()}])
def test_values_outside_the_subset_are_refused(value: object) -> None:
    with pytest.raises(UsageError):
        canonical_json(value)  # type: ignore[arg-type]  # the point of the test
