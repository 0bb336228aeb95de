from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, UsageError, WrongPassphrase
from keys import Recipient
from keys.backends import file_path, open_identity
from keys.exec_plugin import ExecUri
from keys.pkcs11_uri import Pkcs11Uri
from keys.store import save_identity
from keys.suite import Suite
from keys.uri import KeyUri, Scheme


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.identity", "a.identity"),
        ("/x/100% sure.identity", "/x/100% sure.identity"),
        ("file:a.identity", "a.identity"),
        ("file:///x/a%20b.identity", "/x/a b.identity"),
        ("file:/x/a.identity", "/x/a.identity"),
        ("C:a.identity", "C:a.identity"),
    ],
)
def test_a_path_or_a_file_uri_is_a_path(text: str, path: str) -> None:
    parsed = KeyUri.parse(text)
    assert parsed.scheme is Scheme.FILE
    assert file_path(parsed) == Path(path)


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"file:, pkcs11:, exec:, .* got https:"):
        KeyUri.parse("https://example.org/key")


@pytest.mark.parametrize("text", ["", "a\nb", "file:", "x" * 5000])
def test_damaged_uris_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        KeyUri.parse(text)


@given(
    st.text(max_size=80) | st.sampled_from(["pkcs11:", "exec:/"]).flatmap(lambda s: st.text().map(s.__add__))
)
def test_random_text_raises_only_format_and_usage_errors(text: str) -> None:
    for parse in (KeyUri.parse, Pkcs11Uri.parse, ExecUri.parse, lambda t: file_path(KeyUri.parse(t))):
        with contextlib.suppress(FormatError, UsageError):
            parse(text)


def test_an_identity_file_opens_by_path_and_by_uri_with_text_or_a_function(tmp_path: Path) -> None:
    recipient, identity = Recipient.generate("alice", Suite.X25519)
    path = save_identity(tmp_path, identity, "open sesame", log2_n=10)
    assert open_identity(path, "open sesame").recipient == recipient
    assert open_identity(f"file:{path}", lambda purpose: f"open sesame{purpose[:0]}").recipient == recipient
    with pytest.raises(WrongPassphrase, match="needs a passphrase"):
        open_identity(path)
