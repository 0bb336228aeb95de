from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.veilcam.cli import PASSPHRASE, command, environment, veilcam


def test_a_recipient_is_two_files_and_the_private_one_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    ended = veilcam("keys", "recipient", "custodian", "--json", cwd=tmp_path)
    assert ended.exit_code == 0
    assert ended.json["suite"] == "mlkem768x25519"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["custodian.identity", "custodian.recipient"]
    assert (tmp_path / "custodian.identity").stat().st_mode & 0o777 == 0o600


def test_a_camera_is_two_files_and_the_private_one_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    assert veilcam("keys", "camera", "gate", cwd=tmp_path).exit_code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gate.camera", "gate.pub"]
    assert (tmp_path / "gate.camera").stat().st_mode & 0o777 == 0o600


def test_show_tells_kind_name_and_the_same_id_for_both_halves_without_a_passphrase(tmp_path: Path) -> None:
    veilcam("keys", "recipient", "r", "--suite", "x25519", cwd=tmp_path)
    veilcam("keys", "camera", "c", cwd=tmp_path)
    bare = {name: value for name, value in environment().items() if name != "VEILCAM_PASSPHRASE"}
    shown = {
        name: veilcam("keys", "show", name, "--json", cwd=tmp_path, env=bare).json
        for name in ("r.recipient", "r.identity", "c.camera", "c.pub")
    }
    assert shown["r.recipient"]["id"] == shown["r.identity"]["id"]
    assert shown["c.camera"]["id"] == shown["c.pub"]["id"]
    assert [each["kind"] for each in shown.values()] == ["recipient", "identity", "camera", "camera-public"]
    assert shown["r.identity"]["suite"] == "x25519"


def test_show_prints_nothing_of_the_private_files(tmp_path: Path) -> None:
    veilcam("keys", "camera", "c", cwd=tmp_path)
    seed = re.search(r"seed: (\S+)", (tmp_path / "c.camera").read_text())
    assert seed is not None
    ended = veilcam("keys", "show", "c.camera", cwd=tmp_path, env=environment(VEILCAM_DEBUG="1"))
    assert seed[1] not in ended.out + ended.err


@pytest.mark.parametrize("kind", ["recipient", "camera"])
def test_existing_keys_are_not_overwritten(tmp_path: Path, kind: str) -> None:
    veilcam("keys", kind, "k", cwd=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ended = veilcam("keys", kind, "k", cwd=tmp_path)
    assert ended.exit_code == 2
    assert "exists" in ended.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["a b", "../../etc/x y", "-x", "no/such/folder/k", ""])
def test_names_that_make_no_file_are_refused(tmp_path: Path, name: str) -> None:
    ended = veilcam("keys", "camera", "--", name, cwd=tmp_path)
    assert ended.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_without_terminal_and_variable_no_recipient_is_made(tmp_path: Path) -> None:
    bare = {name: value for name, value in environment().items() if name != "VEILCAM_PASSPHRASE"}
    ended = veilcam("keys", "recipient", "r", cwd=tmp_path, env=bare)
    assert ended.exit_code == 2
    assert "VEILCAM_PASSPHRASE" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_passphrase_is_refused(tmp_path: Path) -> None:
    assert (
        veilcam("keys", "recipient", "r", cwd=tmp_path, env=environment(VEILCAM_PASSPHRASE="")).exit_code == 2
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("second", "exit_code"), [(PASSPHRASE, 0), ("another", 2)])
def test_on_a_terminal_the_passphrase_is_asked_twice_and_never_echoed(
    tmp_path: Path, second: str, exit_code: int
) -> None:
    bare = {name: value for name, value in environment().items() if name != "VEILCAM_PASSPHRASE"}
    leader, follower = pty.openpty()
    try:
        process = subprocess.Popen(
            command("keys", "recipient", "r"),
            cwd=tmp_path,
            env=bare,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        shown = b""
        for prompt, answer in ((b"New passphrase", PASSPHRASE), (b"Once more", second)):
            while prompt not in shown:
                shown += os.read(leader, 1024)
            os.write(leader, answer.encode() + b"\n")
        assert process.wait(timeout=60) == exit_code
        os.set_blocking(leader, False)
        try:
            while True:
                shown += os.read(leader, 4096)
        except OSError:
            pass
    finally:
        os.close(leader)
        os.close(follower)
    assert PASSPHRASE.encode() not in shown
    assert (tmp_path / "r.identity").exists() is (exit_code == 0)
