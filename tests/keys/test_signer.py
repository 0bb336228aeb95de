from __future__ import annotations

import pickle
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import AuthenticationFailed, FormatError, UsageError, WrongPassphrase
from keys import SecretBytes
from keys.labels import Label
from keys.signer import SignerKey, SignerPublic
from keys.signer_file import (
    load_signer,
    load_signer_public,
    parse_signer,
    parse_signer_public,
    render_signer_public,
    save_signer,
)
from keys.store import describe

PASSPHRASE = "correct horse"

# RFC 8032, section 7.1, TEST 2: the seed and its public key.
SEED = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")


def test_the_public_key_is_the_one_of_rfc_8032() -> None:
    assert SignerKey("dora", SecretBytes(SEED)).public.public_key == PUBLIC


def test_a_signature_holds_for_its_label_and_message_alone() -> None:
    key = SignerKey.generate("dora")
    signature = key.sign(Label.GRANT_APPROVAL, b"message")
    key.public.verify(Label.GRANT_APPROVAL, signature, b"message")
    for label, message in ((Label.GRANT_ISSUE, b"message"), (Label.GRANT_APPROVAL, b"massage")):
        with pytest.raises(AuthenticationFailed):
            key.public.verify(label, signature, message)
    with pytest.raises(AuthenticationFailed):
        SignerKey.generate("dora").public.verify(Label.GRANT_APPROVAL, signature, b"message")


def test_a_signer_is_saved_under_a_passphrase_and_read_back(tmp_path: Path) -> None:
    key = SignerKey.generate("dora")
    path = save_signer(tmp_path, key, PASSPHRASE, log2_n=10)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_signer(path, PASSPHRASE).public == key.public
    assert load_signer_public(tmp_path / "dora.signer.pub") == key.public
    with pytest.raises(WrongPassphrase):
        load_signer(path, "wrong")
    with pytest.raises(UsageError):
        save_signer(tmp_path, SignerKey.generate("dora"), PASSPHRASE, log2_n=10)


def test_a_signer_file_under_another_name_does_not_open(tmp_path: Path) -> None:
    path = save_signer(tmp_path, SignerKey.generate("dora"), PASSPHRASE, log2_n=10)
    path.write_bytes(path.read_bytes().replace(b"name: dora", b"name: dana"))
    with pytest.raises(WrongPassphrase):
        load_signer(path, PASSPHRASE)


def test_both_files_say_what_they_are(tmp_path: Path) -> None:
    key = SignerKey.generate("dora")
    path = save_signer(tmp_path, key, PASSPHRASE, log2_n=10)
    for file, kind in ((path, "signer"), (tmp_path / "dora.signer.pub", "signer-public")):
        info = describe(file)
        assert (info.kind, info.name, info.key_id) == (kind, "dora", key.public.signer_id)


def test_the_private_half_is_not_shown_and_not_pickled() -> None:
    key = SignerKey("dora", SecretBytes(SEED))
    assert SEED.hex() not in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)


@given(st.binary(max_size=300))
def test_random_bytes_raise_only_format_errors(data: bytes) -> None:
    for prefix in (b"", b"veilcam-signer-public v1\n", b"veilcam-signer v1\nname: a\n"):
        with pytest.raises(FormatError):
            parse_signer_public(prefix + data)
        with pytest.raises(FormatError):
            parse_signer(prefix + data, SecretBytes(b"x"))


@given(st.binary(min_size=32, max_size=32), st.from_regex(r"[a-z][a-z0-9._@-]{0,20}", fullmatch=True))
def test_public_files_read_back_as_written(key: bytes, name: str) -> None:
    public = SignerPublic(name, key)
    assert parse_signer_public(render_signer_public(public)) == public
