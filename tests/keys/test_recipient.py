from __future__ import annotations

import hashlib

import pytest

from base.errors import Malformed, UsageError
from keys import Identity, Recipient, SecretBytes
from keys.suite import Suite


def test_the_default_is_the_hybrid() -> None:
    recipient, identity = Recipient.generate("alice")
    assert recipient.suite is Suite.MLKEM768_X25519
    assert identity.recipient == recipient


@pytest.mark.parametrize("suite", Suite)
def test_generated_pairs_fit_and_differ(suite: Suite) -> None:
    first, identity = Recipient.generate("alice", suite)
    second, _ = Recipient.generate("alice", suite)
    assert first.public_key != second.public_key
    assert identity.unwrap(first.wrap(SecretBytes(b"secret"), b"info"), b"info") == SecretBytes(b"secret")


@pytest.mark.parametrize("suite", Suite)
def test_the_recipient_id_is_the_documented_hash(suite: Suite) -> None:
    recipient, _ = Recipient.generate("alice", suite)
    digest = hashlib.sha256(b"veilcam recipient id v1" + bytes([suite.value]) + recipient.public_key).digest()
    assert recipient.recipient_id == digest[:16]


@pytest.mark.parametrize("name", ["", ".hidden", "-flag", "a/b", "..", "a b", "ä", "a\n", "x" * 65])
def test_names_that_are_no_file_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="key name"):
        Recipient.generate(name, Suite.X25519)


@pytest.mark.parametrize("name", ["a", "7", "Anna.M-1_x@example.org", "x" * 64])
def test_names_that_are_file_names_are_taken(name: str) -> None:
    assert Recipient.generate(name, Suite.X25519)[0].name == name


def test_a_public_key_of_another_suite_is_refused() -> None:
    recipient, _ = Recipient.generate("alice", Suite.X25519)
    with pytest.raises(Malformed, match="expected 1216 bytes, got 32"):
        Recipient("alice", Suite.MLKEM768_X25519, recipient.public_key)


def test_a_seed_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError, match="expected 32 bytes, got 31"):
        Identity("alice", Suite.X25519, SecretBytes(bytes(31)))
