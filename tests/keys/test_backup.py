"""Backup, restore, destruction."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.canonical import canonical_json
from base.errors import AuthenticationFailed, FormatError, UnknownVersion, UsageError, WrongPassphrase
from keys import CameraKey, Recipient, SecretBytes
from keys.backup import Backup, read_folder, write_folder
from keys.destruction import Destruction, prove_possession
from keys.erase import erase_file
from keys.store import load_identity, save_camera, save_identity, save_recipient
from keys.suite import Suite

NOW_US = 1_800_000_000_000_000
RECORD = Destruction(
    "custody",
    Suite.X25519,
    b"r" * 16,
    "custody.identity",
    b"h" * 32,
    True,
    NOW_US,
    "dora",
    "§ 17",
    (b"e" * 16,),
)


def _folder(folder: Path) -> Path:
    folder.mkdir()
    recipient, identity = Recipient.generate("custody", Suite.X25519)
    save_recipient(folder, recipient)
    save_identity(folder, identity, "custody's", log2_n=10)
    save_camera(folder, CameraKey.generate("gate"))
    (folder / "notes.txt").write_text("not a key file")
    (folder / "link.identity").symlink_to(folder / "custody.identity")
    return folder


def _seal(folder: Path) -> Backup:
    return Backup.seal(read_folder(folder), "backup's", created_us=NOW_US, log2_n=10)


def test_a_folder_comes_back_as_it_was(tmp_path: Path) -> None:
    source = _folder(tmp_path / "a")
    backup = Backup.parse(bytes(_seal(source)))
    assert backup.names == ("custody.identity", "custody.recipient", "gate.camera")
    target = tmp_path / "b"
    target.mkdir()
    written, left_out = write_folder(target, backup.open("backup's"))
    assert [path.name for path in written] == list(backup.names)
    assert left_out == []
    for path in written:
        assert path.read_bytes() == (source / path.name).read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600
    assert load_identity(target / "custody.identity", "custody's").recipient.name == "custody"


def test_restoring_writes_over_nothing(tmp_path: Path) -> None:
    source = _folder(tmp_path / "a")
    files = _seal(source).open("backup's")
    assert write_folder(source, files) == ([], ["custody.identity", "custody.recipient", "gate.camera"])
    (source / "gate.camera").unlink()
    (source / "custody.recipient").write_text("another one")
    with pytest.raises(UsageError, match="nothing was restored"):
        write_folder(source, files)
    assert not (source / "gate.camera").exists()


def test_a_destroyed_identity_is_not_brought_back(tmp_path: Path) -> None:
    source = _folder(tmp_path / "a")
    files = _seal(source).open("backup's")
    (source / "custody.destroyed").write_bytes(bytes(RECORD))
    erase_file(source / "custody.identity")
    written, left_out = write_folder(source, files)
    assert written == []
    assert "custody.identity" in left_out


def test_a_wrong_passphrase_or_any_changed_byte_opens_nothing(tmp_path: Path) -> None:
    good = bytes(_seal(_folder(tmp_path / "a")))
    with pytest.raises(WrongPassphrase):
        Backup.parse(good).open("custody's")
    for place in range(0, len(good), 97):
        changed = bytearray(good)
        changed[place] ^= 1
        with pytest.raises((FormatError, WrongPassphrase)):
            Backup.parse(bytes(changed)).open("backup's")


def test_the_private_keys_are_not_in_the_clear(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a")
    seed = (folder / "gate.camera").read_bytes().splitlines()[-1].split(b": ")[1]
    assert seed not in bytes(_seal(folder))


@pytest.mark.parametrize("name", ["../x.identity", "/etc/x.identity", ".x.identity", "a/b.pub", ""])
def test_names_that_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Backup.seal({name: SecretBytes(b"x")}, "p", created_us=NOW_US, log2_n=10)
    good = Backup.seal({"a.pub": SecretBytes(b"x")}, "p", created_us=NOW_US, log2_n=10)
    with pytest.raises(FormatError):
        Backup.parse(bytes(dataclasses.replace(good, names=(name,))))


def test_a_newer_backup_is_told_from_a_damaged_one() -> None:
    with pytest.raises(UnknownVersion):
        Backup.parse(b"veilcam-backup v2\n{}\n" + bytes(16))


@settings(max_examples=80)
@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
def test_broken_backups_and_records_raise_only_format_errors(data: bytes, place: int, byte: int) -> None:
    for good, parse in ((_GOOD, Backup.parse), (bytes(RECORD), Destruction.parse)):
        broken = bytearray(good)
        broken[place % len(broken)] = byte
        for each in (data, b"veilcam-backup v1\n" + data, bytes(broken)):
            with contextlib.suppress(FormatError):
                assert bytes(parse(each)) == each


_GOOD = bytes(Backup.seal({"a.pub": SecretBytes(b"x")}, "p", created_us=NOW_US, log2_n=10))


def test_a_record_of_destruction_is_read_back() -> None:
    assert Destruction.parse(bytes(RECORD)) == RECORD


def test_four_months_of_epochs_fit_into_a_record_and_their_hash_into_the_ledger() -> None:
    many = dataclasses.replace(RECORD, epochs=tuple(n.to_bytes(16, "big") for n in range(16_384)))
    assert Destruction.parse(bytes(many)) == many
    facts = many.ledger_facts()
    assert facts["num_epochs"] == len(many.epochs)
    assert facts["record_sha256"] == hashlib.sha256(bytes(many)).hexdigest()
    assert len(canonical_json(facts)) < 4096
    most = dataclasses.replace(RECORD, reason=chr(34) * 2000, epochs=many.epochs[:512])
    assert len(canonical_json(most.ledger_facts())) < 65_536 - 4096


@pytest.mark.parametrize(
    "changes", [{"reason": "x" * 2001}, {"reason": "a\x1b[2K"}, {"epochs": (bytes(16),) * 16_385}]
)
def test_a_record_that_nobody_could_read_is_not_made(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        dataclasses.replace(RECORD, **changes)


def test_a_backup_that_nobody_could_read_is_not_made() -> None:
    big = {f"{n}.pub": SecretBytes(bytes(1 << 20)) for n in range(8)}
    with pytest.raises(UsageError, match="part the folder"):
        Backup.seal(big, "p", created_us=NOW_US, log2_n=10)


def test_an_erased_file_is_gone_and_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"secret" * 100)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        erase_file(tmp_path / "link")
    assert target.read_bytes() == b"secret" * 100
    held = target.open("rb")
    erase_file(target)
    assert not target.exists()
    assert b"secret" not in held.read()
    held.close()


def test_possession_is_proven_with_the_real_key_only() -> None:
    recipient, identity = Recipient.generate("custody", Suite.X25519)
    prove_possession(identity)
    other = Recipient.generate("other", Suite.X25519)[1]

    class Pretender:
        @property
        def recipient(self) -> Recipient:
            return recipient

        def unwrap(self, wrapped: bytes, info: bytes) -> SecretBytes:
            return other.unwrap(wrapped, info)

    with pytest.raises(AuthenticationFailed):
        prove_possession(Pretender())
