from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import AuthenticationFailed, FormatError, UsageError, VeilError
from forensics.audit import make_checkpoint
from forensics.checkpoint import Checkpoint, VerifierKey
from forensics.ledger import Ledger
from forensics.ledger_proofs import ConsistencyProof, InclusionProof, Proof, parse_proof
from keys import SecretBytes
from keys.signer import SignerKey
from tests.forensics.ledger_checker import check_note, check_proof

SIZE = 7
KEY = SignerKey("ledger", SecretBytes(b"\x07" * 32))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the ledger is."""
    return tmp_path_factory.mktemp("proofs")


@pytest.fixture(scope="module")
def history(folder: Path) -> list[tuple[Checkpoint, VerifierKey, list[bytes]]]:
    """A checkpoint after each of seven entries."""
    ledger, made = Ledger(folder / "ledger.jsonl"), []
    for number in range(SIZE):
        ledger.append("open", {"case": f"A-{number}"})
        made.append(make_checkpoint(ledger.path))
    return made


@pytest.fixture(scope="module")
def lines(history: list[Any], folder: Path) -> list[bytes]:
    """The lines of that ledger."""
    assert history
    return (folder / "ledger.jsonl").read_bytes().splitlines()


def test_every_entry_is_proved_to_somebody_without_the_ledger(history: list[Any], lines: list[bytes]) -> None:
    checkpoint, key, leaves = history[-1]
    for index, line in enumerate(lines):
        data = bytes(InclusionProof.make(checkpoint, leaves, index, line))
        proof = parse_proof(data)
        assert isinstance(proof, InclusionProof)
        assert proof.verify(key).body == {"case": f"A-{index}"}
        assert check_proof(data, str(key))["body"] == {"case": f"A-{index}"}


def test_every_later_ledger_is_proved_to_begin_with_every_earlier_one(history: list[Any]) -> None:
    key = history[-1][1]
    for old in range(SIZE):
        for new in range(old, SIZE):
            data = bytes(ConsistencyProof.make(history[old][0], history[new][0], history[new][2]))
            proof = parse_proof(data)
            assert isinstance(proof, ConsistencyProof)
            proof.verify(key)
            assert check_proof(data, str(key)) == (old + 1, new + 1)


def test_a_proof_of_another_entry_or_ledger_does_not_hold(history: list[Any], lines: list[bytes]) -> None:
    checkpoint, key, leaves = history[-1]
    proof = InclusionProof.make(checkpoint, leaves, 2, lines[2])
    other = dataclasses.replace(key, public_key=KEY.public.public_key)
    for wrong in (
        dataclasses.replace(proof, line=lines[3]),
        dataclasses.replace(proof, index=3),
        dataclasses.replace(proof, path=proof.path[:-1]),
        dataclasses.replace(proof, checkpoint=dataclasses.replace(checkpoint, size=6)),
        dataclasses.replace(proof, checkpoint=history[3][0]),
    ):
        with pytest.raises(AuthenticationFailed):
            wrong.verify(key)
    with pytest.raises(AuthenticationFailed):
        proof.verify(other)
    with pytest.raises(UsageError):
        InclusionProof.make(checkpoint, leaves, SIZE, b"")


def test_a_rewritten_past_has_no_consistency_proof(history: list[Any], tmp_path: Path) -> None:
    """The owner of the key writes the ledger anew: his checkpoints no longer fit the one kept elsewhere."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for number in range(SIZE):
        ledger.append("open", {"case": f"B-{number}"})
    _, _, leaves = make_checkpoint(ledger.path)
    kept, key, _ = history[3]
    now = history[-1][0]
    with pytest.raises(AuthenticationFailed):
        ConsistencyProof.make(kept, now, leaves).verify(key)


def test_a_checkpoint_is_a_c2sp_signed_note(history: list[Any]) -> None:
    checkpoint, key, _ = history[-1]
    text = bytes(checkpoint).decode()
    assert check_note(text, str(key)) == (SIZE, checkpoint.root)
    assert text.splitlines()[1] == str(SIZE)
    assert Checkpoint.parse(text.encode()) == checkpoint
    assert VerifierKey.parse(str(key)) == key


def test_a_verifier_key_has_the_hash_that_the_note_format_gives_it() -> None:
    """The key is the one in the examples of golang.org/x/mod/sumdb/note: PeterNeumann+c74f20a3+ARpc2...

    Ours have another form of name, so the hash is computed here as it is there.
    """
    key = base64.b64decode("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    assert hashlib.sha256(b"PeterNeumann\n" + key).digest()[:4].hex() == "c74f20a3"
    ours = VerifierKey("veilcam.ledger/0123456789abcdef", key[1:])
    assert ours.key_hash == hashlib.sha256(b"veilcam.ledger/0123456789abcdef\n" + key).digest()[:4]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_changed_byte_anywhere_in_a_proof_is_refused(
    history: list[Any], lines: list[bytes], data: st.DataObject
) -> None:
    checkpoint, key, leaves = history[-1]
    proofs: tuple[Proof, ...] = (
        InclusionProof.make(checkpoint, leaves, 2, lines[2]),
        ConsistencyProof.make(history[2][0], checkpoint, leaves),
    )
    whole = bytearray(bytes(data.draw(st.sampled_from(proofs))))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(VeilError):
        parse_proof(bytes(whole)).verify(key)


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_format_errors(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_proof(data)
    with pytest.raises(FormatError):
        Checkpoint.parse(data)
    with pytest.raises(FormatError):
        VerifierKey.parse(data.decode("latin-1"))


@settings(deadline=None)
@given(st.integers(0, 2**50), st.binary(min_size=32, max_size=32))
def test_checkpoints_read_back_as_written(size: int, root: bytes) -> None:
    made = Checkpoint.sign("veilcam.ledger/0123456789abcdef", size, root, KEY)
    again = Checkpoint.parse(bytes(made))
    again.verify(VerifierKey(made.origin, KEY.public.public_key))
    assert again == made


def test_the_documents_are_one_line_of_json(history: list[Any], lines: list[bytes]) -> None:
    checkpoint, _, leaves = history[-1]
    data = bytes(InclusionProof.make(checkpoint, leaves, 0, lines[0]))
    assert b"\n" not in data
    assert json.loads(data)["type"] == "veilcam ledger inclusion"
