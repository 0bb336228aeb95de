from __future__ import annotations

import base64
import hashlib
import resource
import unicodedata
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed, UsageError, WrongPassphrase
from keys import Identity, SecretBytes
from keys.identity_file import DEFAULT_LOG2_N, LockedIdentity
from keys.suite import Suite
from tests.keys.vectors.make import PASSPHRASE

VECTORS = Path(__file__).parent / "vectors"
IDENTITY = Identity("alice", Suite.X25519, SecretBytes(bytes(range(32))))
LOCKED = bytes(LockedIdentity.seal(IDENTITY, "open sesame", log2_n=10))


@pytest.mark.parametrize("name", ["hybrid", "plain"])
def test_the_frozen_files_open(name: str) -> None:
    identity = LockedIdentity.parse((VECTORS / f"{name}.identity").read_bytes()).open(PASSPHRASE)
    assert identity.seed == SecretBytes(bytes(range(32)))
    assert identity.recipient.name == name


def test_a_reader_written_from_the_description_opens_the_file() -> None:
    """Standard library's scrypt, by hand; shares no code with the product."""
    head, sealed_line = LOCKED.decode().split("sealed: ")
    fields = dict(line.split(": ") for line in head.splitlines()[1:])
    assert fields["kdf"] == "scrypt log2n=10 r=8 p=1"
    key = hashlib.scrypt(
        b"open sesame", salt=base64.b64decode(fields["salt"]), n=1024, r=8, p=1, dklen=32, maxmem=2**24
    )
    aad = b"veilcam identity file v1" + head.encode()
    seed = AESGCM(key).decrypt(base64.b64decode(fields["nonce"]), base64.b64decode(sealed_line), aad)
    assert seed == bytes(range(32))


def test_another_passphrase_is_wrong() -> None:
    with pytest.raises(WrongPassphrase, match="identity alice"):
        LockedIdentity.parse(LOCKED).open("open sesame ")


def test_sealing_twice_uses_other_salts_and_nonces() -> None:
    first, second = (LockedIdentity.seal(IDENTITY, "x", log2_n=10) for _ in range(2))
    assert first.salt != second.salt
    assert first.nonce != second.nonce


def test_composed_and_decomposed_letters_are_the_same_passphrase() -> None:
    decomposed = unicodedata.normalize("NFD", PASSPHRASE)
    assert decomposed != PASSPHRASE
    identity = LockedIdentity.parse((VECTORS / "plain.identity").read_bytes()).open(decomposed)
    assert identity.seed == SecretBytes(bytes(range(32)))


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_changed_byte_is_refused_or_a_wrong_passphrase(data: st.DataObject) -> None:
    content = bytearray(LOCKED)
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
    with pytest.raises((WrongPassphrase, FormatError)):
        LockedIdentity.parse(bytes(content)).open("open sesame")


@pytest.mark.parametrize("old", [b"name: alice", b"log2n=10"])
def test_name_and_cost_are_authenticated(old: bytes) -> None:
    changed = LOCKED.replace(old, {b"name: alice": b"name: mallo", b"log2n=10": b"log2n=11"}[old])
    assert changed != LOCKED
    with pytest.raises(WrongPassphrase):
        LockedIdentity.parse(changed).open("open sesame")


@pytest.mark.parametrize("log2_n", [b"1", b"9", b"19", b"30", b"64", b"999999999"])
def test_a_hostile_cost_is_refused_before_anything_is_allocated(log2_n: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LimitExceeded, match="limits are 10 to 18"):
        LockedIdentity.parse(LOCKED.replace(b"log2n=10", b"log2n=" + log2_n))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024  # KiB


@pytest.mark.parametrize(
    "kdf",
    [b"log2n=10 r=9 p=1", b"log2n=10 r=8 p=2", b"log2n=010 r=8 p=1", b"log2n=+10 r=8 p=1", b"log2n=1e1"],
)
def test_other_spellings_and_parameters_are_malformed(kdf: bytes) -> None:
    with pytest.raises(Malformed, match="field kdf"):
        LockedIdentity.parse(LOCKED.replace(b"log2n=10 r=8 p=1", kdf))


def test_an_id_in_upper_case_is_malformed() -> None:
    hex_id = IDENTITY.recipient.recipient_id.hex().encode()
    with pytest.raises(Malformed, match="field id"):
        LockedIdentity.parse(LOCKED.replace(hex_id, b"A" * 32))


def test_a_file_whose_key_is_not_the_one_it_names_is_malformed() -> None:
    other = Identity("alice", Suite.X25519, SecretBytes(bytes(32)))
    key_id = other.recipient.recipient_id
    lie = LockedIdentity("alice", Suite.X25519, key_id, 10, bytes(16), bytes(12), b"")
    key = hashlib.scrypt(b"x", salt=bytes(16), n=1024, r=8, p=1, dklen=32, maxmem=2**24)
    head = bytes(lie).split(b"sealed: ")[0]
    sealed = AESGCM(key).encrypt(bytes(12), bytes(range(32)), b"veilcam identity file v1" + head)
    honest_form = head + b"sealed: " + base64.b64encode(sealed) + b"\n"
    with pytest.raises(Malformed, match="not the one that its id names"):
        LockedIdentity.parse(honest_form).open("x")


def test_a_passphrase_with_undecodable_bytes_opens_what_it_sealed() -> None:
    """The environment gives bytes that are no UTF-8 as lone surrogates."""
    locked = LockedIdentity.seal(IDENTITY, "caf\udce9", log2_n=10)
    assert locked.open("caf\udce9").seed == IDENTITY.seed
    with pytest.raises(WrongPassphrase):
        locked.open("caf\u00e9")


@pytest.mark.parametrize(("passphrase", "text"), [("", "got 0"), ("x" * 1025, "got 1025")])
def test_passphrases_that_do_not_do_are_refused(passphrase: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        LockedIdentity.seal(IDENTITY, passphrase, log2_n=10)
    with pytest.raises(UsageError, match=text):
        LockedIdentity.parse(LOCKED).open(passphrase)


@pytest.mark.parametrize("log2_n", [9, 19])
def test_writing_keeps_to_the_bounds_that_reading_checks(log2_n: int) -> None:
    with pytest.raises(UsageError, match="10 to 18"):
        LockedIdentity.seal(IDENTITY, "x", log2_n=log2_n)


def test_the_default_cost_takes_64_mib() -> None:
    assert 128 * 8 * 2**DEFAULT_LOG2_N == 64 * 2**20
