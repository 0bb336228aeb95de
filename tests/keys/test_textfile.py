from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed, Truncated, UnknownVersion
from keys import textfile
from keys.suite import Suite

GOOD = b"veilcam-camera v1\nname: door\nid: 00\n"
NAMES = ("name", "id")


def _parse(data: bytes) -> dict[str, str]:
    return textfile.parse(data, "camera", NAMES, where="door.camera")


@given(
    st.lists(
        st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1), min_size=2, max_size=2
    )
)
def test_what_is_written_is_read_back(values: list[str]) -> None:
    fields = dict(zip(NAMES, values, strict=True))
    assert _parse(textfile.render("camera", list(fields.items()))) == fields


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: GOOD[:18] + tail))
def test_random_bytes_raise_only_format_errors_or_are_canonical(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        assert textfile.render("camera", list(_parse(data).items())) == data


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        pytest.param(b"", Truncated, "line end", id="empty"),
        pytest.param(GOOD[:-1], Truncated, "line end", id="no line end"),
        pytest.param(b"veilcam-camera v1\nname: door\n", Truncated, "2 fields, got 1", id="field missing"),
        pytest.param(GOOD + b"more: x\n", Malformed, "2 fields, got 3", id="field too many"),
        pytest.param(GOOD + b"\n", Malformed, "2 fields, got 3", id="empty line"),
        pytest.param(b"veilcam-camera v1\nid: 00\nname: door\n", Malformed, "field name", id="order"),
        pytest.param(GOOD.replace(b"\n", b"\r\n"), Malformed, "printable ASCII", id="CRLF"),
        pytest.param(GOOD.replace(b"door", b"d\xc3\xb6r"), Malformed, "printable ASCII", id="not ASCII"),
        pytest.param(GOOD.replace(b"door", b"\x1b[31m"), Malformed, "printable ASCII", id="terminal escape"),
        pytest.param(GOOD.replace(b": door", b":door"), Malformed, "field name", id="no space"),
        pytest.param(GOOD.replace(b": door", b":  door"), Malformed, "field name", id="two spaces"),
        pytest.param(GOOD.replace(b"door", b"door "), Malformed, "field name", id="space at the end"),
        pytest.param(GOOD.replace(b": door", b": "), Malformed, "field name", id="no value"),
        pytest.param(GOOD.replace(b"v1", b"v2"), UnknownVersion, "version 1, got 2", id="version 2"),
        pytest.param(GOOD.replace(b"v1", b"v01"), UnknownVersion, "version 1, got 01", id="version 01"),
        pytest.param(b"\xef\xbb\xbf" + GOOD, Malformed, "printable ASCII", id="byte order mark"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\n", Malformed, "something else", id="PEM"),
        pytest.param(GOOD.replace(b"camera", b"tripod"), Malformed, "something else", id="unknown kind"),
        pytest.param(
            GOOD.replace(b"camera", b"identity"), Malformed, "camera file, got veilcam identity", id="kind"
        ),
        pytest.param(b"x" * 8193, LimitExceeded, "8192 bytes", id="too long"),
    ],
)
def test_every_deviation_is_named(data: bytes, error: type[FormatError], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        _parse(data)
    assert str(caught.value).startswith("door.camera: ")
    assert type(caught.value) is error


@given(st.binary(max_size=64))
def test_base64_fields_are_read_back(data: bytes) -> None:
    text = textfile.render_bytes(data)
    assert textfile.parse_bytes(text, len(data), field="key", where="x") == data


@pytest.mark.parametrize(
    "text",
    ["AB==", "AA", "AA=", "AA===", "A A=", "AA==\n", "AA==AA==", "-_==", "AAA=", "====", "ä==="],
    ids=[
        "unused bits set",
        "none",
        "one",
        "three",
        "space",
        "line",
        "two",
        "URL letters",
        "2 bytes",
        "pad",
        "ä",
    ],
)
def test_base64_has_one_spelling(text: str) -> None:
    """All of these look like base64 of one byte to one decoder or other."""
    with pytest.raises(Malformed, match="base64 of 1 bytes"):
        textfile.parse_bytes(text, 1, field="key", where="x")


def test_unknown_suites_are_a_matter_of_version() -> None:
    assert textfile.parse_suite("x25519", where="x") is Suite.X25519
    with pytest.raises(UnknownVersion, match="x25519, mlkem768x25519"):
        textfile.parse_suite("X25519", where="x")


@pytest.mark.parametrize("name", ["../x", "a b", "", "x" * 65])
def test_names_from_files_are_checked(name: str) -> None:
    with pytest.raises(Malformed, match="field name"):
        textfile.parse_name(name, where="x")
