"""Keys in a token: SoftHSM, through its own library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from base.errors import AuthenticationFailed, FormatError, KeyUnavailable, UsageError, WrongPassphrase
from keys import SecretBytes, unwrap_epoch_key, wrap_epoch_key
from keys.backends import open_identity
from keys.pkcs11_token import Token, open_pkcs11
from keys.pkcs11_uri import Pkcs11Uri
from keys.schedule import EpochKey
from keys.suite import Suite
from tests.keys import softhsm
from tests.keys.softhsm import PIN, token_uri

CAMERA, EPOCH = b"c" * 16, b"e" * 16


@pytest.fixture(scope="module", autouse=True)
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A token named ``our token``; SoftHSM reads its configuration once in a process."""
    softhsm.module()
    configuration = softhsm.configure(tmp_path_factory.mktemp("softhsm"))
    before = os.environ.get("SOFTHSM2_CONF")
    os.environ["SOFTHSM2_CONF"] = str(configuration)
    softhsm.make_token("our token", configuration)
    yield "our token"
    if before is None:
        del os.environ["SOFTHSM2_CONF"]
    else:
        os.environ["SOFTHSM2_CONF"] = before


@pytest.mark.parametrize("suite", [Suite.P256, Suite.X25519])
def test_an_epoch_key_sealed_to_a_token_opens_with_the_token_and_its_pin(token: str, suite: Suite) -> None:
    uri = token_uri(token, f"custody-{suite.label}")
    recipient = Token(Pkcs11Uri.parse(uri), PIN).generate("custody", suite)
    assert recipient.suite is suite
    epoch_key = EpochKey.generate()
    stanzas = wrap_epoch_key(epoch_key, [recipient], CAMERA, EPOCH)
    opener = open_identity(uri, PIN)
    assert opener.recipient == recipient
    assert unwrap_epoch_key(stanzas, [opener], CAMERA, EPOCH).secret == epoch_key.secret
    with pytest.raises(AuthenticationFailed):
        unwrap_epoch_key(stanzas, [opener], CAMERA, b"x" * 16)


def test_the_private_key_does_not_leave_the_token(token: str) -> None:
    import pkcs11  # noqa: PLC0415  # may be missing; the fixture has looked

    held = Token(Pkcs11Uri.parse(token_uri(token, "sealed-in")), PIN)
    held.generate("sealed-in", Suite.P256)
    with held._session() as session:
        key = held._key(session, pkcs11.ObjectClass.PRIVATE_KEY)
        assert key[pkcs11.Attribute.EXTRACTABLE] is False
        assert key[pkcs11.Attribute.SENSITIVE] is True
        with pytest.raises(pkcs11.exceptions.AttributeSensitive):
            key[pkcs11.Attribute.VALUE]


def test_a_wrong_pin_is_a_wrong_passphrase(token: str) -> None:
    with pytest.raises(WrongPassphrase, match="wrong PIN"):
        open_pkcs11(token_uri(token, "custody-p256"), "000000")


def test_the_pin_is_asked_for_by_the_name_of_the_token(token: str) -> None:
    asked: list[str] = []

    def answer(purpose: str) -> str:
        asked.append(purpose)
        return PIN

    uri = token_uri(token, "asked-for")
    Token(Pkcs11Uri.parse(uri), answer).generate("asked-for", Suite.P256)
    assert asked == ["token our token"]


def test_the_pin_may_come_from_a_file(token: str, tmp_path: Path) -> None:
    (tmp_path / "pin").write_text(f"{PIN}\n")
    uri = token_uri(token, "pin-file")
    recipient = Token(Pkcs11Uri.parse(uri), PIN).generate("pin-file", Suite.P256)
    assert open_identity(f"{uri}&pin-source=file:{tmp_path / 'pin'}").recipient == recipient


def test_no_key_no_token_no_library_are_told_apart(token: str, tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match="no such key"):
        open_pkcs11(token_uri(token, "nobody"), PIN)
    with pytest.raises(KeyUnavailable, match="one token"):
        open_pkcs11(token_uri("another", "nobody"), PIN)
    with pytest.raises(KeyUnavailable, match="library"):
        open_pkcs11(f"pkcs11:token=t;object=o?module-path={tmp_path / 'no.so'}", PIN)


def test_keys_in_a_token_are_not_overwritten_and_go_when_destroyed(token: str) -> None:
    uri = token_uri(token, "short-lived")
    held = Token(Pkcs11Uri.parse(uri), PIN)
    held.generate("short-lived", Suite.P256)
    with pytest.raises(UsageError, match="already"):
        held.generate("short-lived", Suite.P256)
    held.destroy()
    with pytest.raises(KeyUnavailable, match="no such key"):
        open_pkcs11(uri, PIN)


def test_tokens_hold_no_hybrid_keys(token: str) -> None:
    held = Token(Pkcs11Uri.parse(token_uri(token, "hybrid")), PIN)
    with pytest.raises(UsageError, match="tokens have p256, x25519"):
        held.generate("hybrid", Suite.MLKEM768_X25519)


def test_a_point_that_is_none_does_not_open(token: str) -> None:
    uri = token_uri(token, "points")
    recipient = Token(Pkcs11Uri.parse(uri), PIN).generate("points", Suite.P256)
    blob = b"\x04" + bytes(64) + recipient.wrap(SecretBytes(b"k" * 32), b"")[65:]
    with pytest.raises((AuthenticationFailed, KeyUnavailable)):
        open_pkcs11(uri, PIN).unwrap(blob, b"")


# RFC 7512, section 3, examples: attributes in any order, percent-encoded, id as bytes.
def test_a_uri_names_what_rfc_7512_says() -> None:
    uri = Pkcs11Uri.parse(
        "pkcs11:token=The%20Software%20PKCS%2311%20Softtoken;manufacturer=Snake%20Oil,%20Inc.;model=1.0;"
        "object=my-key;type=private;id=%69%95%3E%5C%F4%BD%EC%91?pin-source=file:/etc/token_pin"
    )
    assert uri.token == "The Software PKCS#11 Softtoken"
    assert uri.manufacturer == "Snake Oil, Inc."
    assert uri.object_id == bytes.fromhex("69953e5cf4bdec91")
    assert uri.pin_source == Path("/etc/token_pin")


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("pkcs11:token=a;token=b;object=o", FormatError),
        ("pkcs11:object=o;x-unknown=1", FormatError),
        ("pkcs11:object=o?pin-value=1234", UsageError),
        ("pkcs11:token=a", UsageError),
        ("pkcs11:object=o?module-path=relative.so", UsageError),
        ("pkcs11:object=%0a", FormatError),
        ("pkcs11:object=%zz", FormatError),
        ("pkcs11:object=o;type=cert", UsageError),
        ("pkcs11:object", FormatError),
        ("pkcs11:", FormatError),
        ("file:object=o", UsageError),
    ],
)
def test_a_uri_that_could_mean_something_else_is_refused(uri: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Pkcs11Uri.parse(uri)
