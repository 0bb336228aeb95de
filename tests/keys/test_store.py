from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from base.errors import FormatError, KeyUnavailable, LimitExceeded, Malformed, UsageError, WrongPassphrase
from keys import CameraKey, Recipient, store
from keys.suite import Suite

CAMERA = CameraKey.generate("door")
RECIPIENT, IDENTITY = Recipient.generate("alice", Suite.MLKEM768_X25519)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _save_all(folder: Path) -> list[Path]:
    return [
        store.save_recipient(folder, RECIPIENT),
        store.save_identity(folder, IDENTITY, "open sesame", log2_n=10),
        store.save_camera(folder, CAMERA),
        store.save_camera_public(folder, CAMERA.public),
    ]


def test_files_have_the_promised_names_and_nothing_else_is_left(tmp_path: Path) -> None:
    paths = _save_all(tmp_path)
    names = ["alice.recipient", "alice.identity", "door.camera", "door.pub"]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    recipient, identity, camera, public = _save_all(tmp_path)
    assert store.load_recipient(recipient) == RECIPIENT
    loaded = store.load_identity(identity, "open sesame")
    assert (loaded.seed, loaded.recipient) == (IDENTITY.seed, RECIPIENT)
    assert store.load_camera(camera).seed == CAMERA.seed
    assert store.load_camera_public(public) == CAMERA.public


@pytest.mark.usefixtures("open_umask")
def test_private_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    recipient, identity, camera, public = _save_all(tmp_path)
    assert [_mode(path) for path in (identity, camera)] == [0o600, 0o600]
    assert [_mode(path) for path in (recipient, public)] == [0o644, 0o644]


def test_private_files_are_not_overwritten(tmp_path: Path) -> None:
    _, identity, camera, _ = _save_all(tmp_path)
    before = identity.read_bytes(), camera.read_bytes()
    with pytest.raises(UsageError, match=r"alice\.identity: exists"):
        store.save_identity(tmp_path, Recipient.generate("alice")[1], "x", log2_n=10)
    with pytest.raises(UsageError, match=r"door\.camera: exists"):
        store.save_camera(tmp_path, CameraKey.generate("door"))
    assert (identity.read_bytes(), camera.read_bytes()) == before


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "door.camera").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"door\.camera: exists"):
        store.save_camera(tmp_path, CAMERA)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_appears_in_the_meantime_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process wins the race between the check and the write."""
    target = tmp_path / "door.camera"
    target.write_bytes(b"theirs")
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    with pytest.raises(FileExistsError):
        store.save_camera(tmp_path, CAMERA)
    assert target.read_bytes() == b"theirs"


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.save_camera(tmp_path, CAMERA)
    assert list(tmp_path.iterdir()) == []


def test_public_files_may_be_written_again_with_the_same_key_alone(tmp_path: Path) -> None:
    recipient, *_ = _save_all(tmp_path)
    store.save_recipient(tmp_path, RECIPIENT)
    store.save_camera_public(tmp_path, CAMERA.public)
    with pytest.raises(UsageError, match=r"alice\.recipient: exists already with another content"):
        store.save_recipient(tmp_path, Recipient.generate("alice")[0])
    assert store.load_recipient(recipient) == RECIPIENT


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644, 0o777])
def test_a_camera_file_that_others_may_access_is_refused(tmp_path: Path, mode: int) -> None:
    path = store.save_camera(tmp_path, CAMERA)
    path.chmod(mode)
    with pytest.raises(KeyUnavailable, match=f"mode {mode:04o} .*chmod 600 door.camera"):
        store.load_camera(path)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_camera_file_for_its_owner_alone_is_loaded(tmp_path: Path, mode: int) -> None:
    path = store.save_camera(tmp_path, CAMERA)
    path.chmod(mode)
    assert store.load_camera(path).camera_id == CAMERA.camera_id


def test_a_camera_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.save_camera(tmp_path, CAMERA)
    if os.geteuid() == 0:
        os.chown(path, 4711, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(KeyUnavailable, match="belongs to user"):
        store.load_camera(path)


def test_who_gives_the_public_file_as_camera_is_told_so(tmp_path: Path) -> None:
    path = store.save_camera_public(tmp_path, CAMERA.public)
    with pytest.raises(
        Malformed, match=r"door\.pub: expected a veilcam camera file, got veilcam camera-public"
    ):
        store.load_camera(path)


def test_a_wrong_passphrase_is_a_wrong_passphrase(tmp_path: Path) -> None:
    path = store.save_identity(tmp_path, IDENTITY, "open sesame", log2_n=10)
    with pytest.raises(WrongPassphrase):
        store.load_identity(path, "close sesame")
    assert store.load_locked_identity(path).name == "alice"


def test_files_above_the_limit_are_refused_without_reading_them_whole(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(2**40)
    path.chmod(0o600)
    for load in (
        store.load_recipient,
        store.load_locked_identity,
        store.load_camera,
        store.load_camera_public,
        store.describe,
    ):
        with pytest.raises(LimitExceeded, match="8192"):
            load(path)


def test_missing_files_are_the_systems_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.load_camera(tmp_path / "door.camera")


def test_describe_says_what_a_file_is_without_a_passphrase(tmp_path: Path) -> None:
    recipient_id, camera_id = RECIPIENT.recipient_id, CAMERA.camera_id
    assert [store.describe(path) for path in _save_all(tmp_path)] == [
        store.KeyFileInfo("recipient", "alice", recipient_id, "mlkem768x25519"),
        store.KeyFileInfo("identity", "alice", recipient_id, "mlkem768x25519"),
        store.KeyFileInfo("camera", "door", camera_id, "ed25519"),
        store.KeyFileInfo("camera-public", "door", camera_id, "ed25519"),
    ]


def test_describe_refuses_what_is_no_key_file(tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_text("hello\n")
    with pytest.raises(FormatError, match="note: expected a veilcam key file, got something else"):
        store.describe(path)
