"""A key's whole life on the command line, with real recordings: enrolled, used, taken back, destroyed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forensics.audit import verify_ledger
from keys import EpochRing
from keys.scope import load_scoped
from keys.store import save_camera
from tests.forensics.recordings import camera_key, make_source, seal_copy, write_units
from tests.keys import softhsm
from tests.veilcam.cli import Ended, environment, veilcam, veilcam_inside
from veilcam.demo.streams import stream_digests

CAMERA = camera_key(7)
HOLDERS = ("dora", "emil", "fay")


@dataclass(frozen=True, slots=True)
class House:
    """A folder with clip.mp4, the custody's keys, and recordings sealed to them."""

    folder: Path

    def call(self, *arguments: str | Path, **variables: str) -> Ended:
        """Run ``veilcam`` in the folder; each holder has a passphrase of his own."""
        own = {f"VEILCAM_PASSPHRASE_{holder.upper()}": f"{holder}'s" for holder in HOLDERS}
        ledger = {"VEILCAM_LEDGER": str(self.folder / "ledger.jsonl")}
        return veilcam_inside(*arguments, cwd=self.folder, env=environment(**{**own, **ledger, **variables}))

    def ok(self, *arguments: str | Path, **variables: str) -> Any:
        """Run a command that must succeed; returns its JSON."""
        ended = self.call(*arguments, "--json", **variables)
        assert ended.exit_code == 0, f"{arguments}: {ended.err}"
        return ended.json

    def ledger(self) -> list[dict[str, Any]]:
        """Entries of the ledger."""
        return [json.loads(line) for line in (self.folder / "ledger.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    pytest.importorskip("shamir_mnemonic", reason="required: shamir-mnemonic is not installed")
    made = House(tmp_path_factory.mktemp("house"))
    make_source(made.folder / "clip.mp4", seconds=1)
    save_camera(made.folder, CAMERA)
    made.ok("keys", "authority", "root")
    made.ok("keys", "authority", "site", "--under", "root")
    made.ok("keys", "request", "camera-7.camera")
    made.ok("keys", "certify", "camera-7.csr", "--by", "site")
    holders = [part for holder in HOLDERS for part in ("--holder", holder)]
    made.ok("keys", "split", "custody", "-k", "2", *holders)
    made.ok("keys", "recipient", "november", "--suite", "x25519")
    for name in ("custody", "november"):
        record(made.folder, name)
    return made


def record(folder: Path, name: str) -> None:
    """Seal clip.mp4 to NAME.recipient alone: NAME.mp4."""
    ring = EpochRing(CAMERA.camera_id, [load_scoped(folder / f"{name}.recipient")])
    start_us = time.time_ns() // 1000
    units = seal_copy(folder / "clip.mp4", camera=7, epochs=ring, start_us=start_us)
    write_units(folder / f"{name}.mp4", units)


def _verify(house: House, *options: str) -> Ended:
    return house.call(
        "verify", "custody.mp4", "--root", "root.crt", "--certificate", "camera-7.crt", "--json", *options
    )


def test_a_split_key_never_lies_whole_on_the_disk(house: House) -> None:
    assert not (house.folder / "custody.identity").exists()
    for holder in HOLDERS:
        assert (house.folder / f"custody.{holder}.share").stat().st_mode & 0o777 == 0o600


def test_two_holders_in_one_room_get_the_original_back(house: House, tmp_path: Path) -> None:
    target = tmp_path / "back.mp4"
    shares = "shares:custody.dora.share,custody.fay.share"
    assert house.call("decode", "custody.mp4", "-o", target, "-i", shares).exit_code in (0, 3)
    assert stream_digests(target) == stream_digests(house.folder / "clip.mp4")


def test_one_holder_alone_or_with_a_wrong_passphrase_gets_nothing(house: House, tmp_path: Path) -> None:
    target = tmp_path / "back.mp4"
    one = house.call("decode", "custody.mp4", "-o", target, "-i", "shares:custody.dora.share")
    assert (one.exit_code, target.exists()) == (2, False)
    shares = "shares:custody.dora.share,custody.fay.share"
    wrong = house.call("decode", "custody.mp4", "-o", target, "-i", shares, VEILCAM_PASSPHRASE_FAY="dora's")
    assert (wrong.exit_code, target.exists()) == (4, False)
    assert "share of fay" in wrong.err


def test_two_approvals_open_once(house: House, tmp_path: Path) -> None:
    asked = house.ok(
        "keys", "ask", "case-117", "--share", "custody.dora.share", "--reason", "theft", "--case", "117"
    )
    assert asked["needed"] == 2
    shown = house.ok("keys", "approve", "case-117.request", "--share", "custody.dora.share", "--yes")
    assert shown["fingerprint"] == asked["fingerprint"]
    target = tmp_path / "back.mp4"
    early = house.call("decode", "custody.mp4", "-o", target, "-i", "quorum:case-117.request")
    assert (early.exit_code, target.exists()) == (4, False)
    assert "1 of 2 approvals" in early.err
    house.ok("keys", "approve", "case-117.request", "--share", "custody.emil.share", "--yes")
    opened = house.call("decode", "custody.mp4", "-o", target, "-i", "quorum:case-117.request")
    assert opened.exit_code in (0, 3)
    assert stream_digests(target) == stream_digests(house.folder / "clip.mp4")
    again = house.call("decode", "custody.mp4", "-o", tmp_path / "b.mp4", "-i", "quorum:case-117.request")
    assert again.exit_code == 4
    assert "approvals open once" in again.err


def test_nobody_approves_without_looking(house: House) -> None:
    house.ok("keys", "ask", "case-2", "--share", "custody.dora.share", "--reason", "r")
    ended = house.call("keys", "approve", "case-2.request", "--share", "custody.dora.share")
    assert ended.exit_code == 2
    assert "run on a terminal, or add --yes" in ended.err


def test_a_lost_share_comes_back_from_paper(house: House, tmp_path: Path) -> None:
    words = house.ok("keys", "words", "custody.emil.share")["words"]
    (tmp_path / "custody.dora.share").write_bytes((house.folder / "custody.dora.share").read_bytes())
    arguments = ("keys", "enter", "custody.dora.share", "--holder", "emil")
    command = [sys.executable, "-m", "veilcam", *arguments]
    env = environment(VEILCAM_PASSPHRASE="another")
    good = subprocess.run(
        command, cwd=tmp_path, env=env, input=words + "\n\n", text=True, capture_output=True, check=False
    )
    assert good.returncode == 0, good.stderr
    assert (tmp_path / "custody.emil.share").exists()
    fays = house.ok("keys", "words", "custody.fay.share")["words"]
    (tmp_path / "custody.emil.share").unlink()
    bad = subprocess.run(
        command, cwd=tmp_path, env=env, input=fays[:40] + "\n", text=True, capture_output=True, check=False
    )
    assert bad.returncode != 0
    assert not (tmp_path / "custody.emil.share").exists()
    assert fays.split()[0] not in bad.stderr


def test_anybody_with_the_root_learns_which_camera_signed(house: House) -> None:
    ended = _verify(house)
    assert ended.exit_code == 0
    assert ended.json["verdict"] == "authentic"
    assert ended.json["certificate"]["camera"] == "camera-7"
    assert ended.json["certificate"]["issuers"] == ["site", "root"]
    said = house.call("verify", "custody.mp4", "--root", "root.crt", "--certificate", "camera-7.crt")
    assert "certified camera-7 < site < root" in said.out
    assert "no revocation list of site was given" in said.out


def test_another_root_does_not_vouch(house: House) -> None:
    house.ok("keys", "authority", "stranger")
    ended = house.call("verify", "custody.mp4", "--root", "stranger.crt", "--certificate", "camera-7.crt")
    assert ended.exit_code == 3
    assert "not signed by" in ended.err


def test_what_a_stolen_key_signed_is_not_believed_unless_it_was_seen_before(house: House) -> None:
    time.sleep(1.1)  # the recording is a second long, and certificates have whole seconds
    seen = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    time.sleep(1.1)
    future = house.call("keys", "revoke", "camera-7.crt", "--by", "site", "--since", "2999-01-01T00:00:00Z")
    assert (future.exit_code, (house.folder / "site.crl").exists()) == (2, False)
    house.ok("keys", "revoke", "camera-7.crt", "--by", "site", "--reason", "keyCompromise")
    house.ok("keys", "revoke", "--by", "root")
    lists = ("--crl", "site.crl", "--crl", "root.crl")
    ended = _verify(house, *lists)
    assert (ended.exit_code, ended.json["verdict"]) == (3, "unverifiable")
    assert "keyCompromise" in ended.json["causes"][0]
    assert ended.json["certificate"]["notes"] == []
    assert _verify(house, *lists, "--seen-before", seen).json["verdict"] == "authentic"
    late = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))
    assert _verify(house, *lists, "--seen-before", late).json["verdict"] == "unverifiable"
    impossible = _verify(house, *lists, "--seen-before", "2020-01-01T00:00:00Z")
    assert "it cannot have existed" in " ".join(impossible.json["causes"])
    listed = house.call("keys", "list", "--json").json["keys"]
    assert next(each for each in listed if each["file"] == "camera-7.crt")["state"] == "revoked"


def test_a_certificate_that_was_not_valid_at_the_time_proves_nothing(house: House, tmp_path: Path) -> None:
    (tmp_path / "camera-7.csr").write_bytes((house.folder / "camera-7.csr").read_bytes())
    time.sleep(1.1)  # certificates have whole seconds
    house.ok("keys", "certify", tmp_path / "camera-7.csr", "--by", "site")
    ended = house.call(
        "verify", "custody.mp4", "--root", "root.crt", "--certificate", tmp_path / "camera-7.crt", "--json"
    )
    assert (ended.exit_code, ended.json["verdict"]) == (3, "unverifiable")
    assert "certificate was not valid" in ended.json["causes"][0]


def test_what_was_sealed_to_a_destroyed_key_is_erased_and_the_ledger_says_so(
    house: House, tmp_path: Path
) -> None:
    target = tmp_path / "back.mp4"
    house.ok("keys", "backup", ".", "-o", "keys.backup")
    assert house.call("decode", "november.mp4", "-o", target, "-i", "november.identity").exit_code in (0, 3)
    gone = house.ok(
        "keys",
        "destroy",
        "november.identity",
        "--reason",
        "retention",
        "--recording",
        "november.mp4",
        "--recording",
        "custody.mp4",
        "--yes",
    )
    assert len(gone["epochs"]) == 1
    assert not (house.folder / "november.identity").exists()
    record = json.loads((house.folder / "november.destroyed").read_bytes())
    assert record["tested"] is True
    assert record["epochs"] == gone["epochs"]
    entry = next(each for each in house.ledger() if each["kind"] == "epoch-destroyed")
    assert {name: entry["body"][name] for name in record} == record
    assert verify_ledger(house.folder / "ledger.jsonl").is_intact
    restored = house.ok("keys", "restore", "keys.backup", "--into", ".")
    assert "november.identity" in restored["left_out"]
    assert not (house.folder / "november.identity").exists()
    # A backup that is restored elsewhere still has it: destroying it is the custodian's duty too.
    assert "november.identity" in house.ok("keys", "restore", "keys.backup")["files"]


def test_a_destruction_that_was_cut_short_is_finished_by_the_next_one(house: House) -> None:
    house.ok("keys", "recipient", "brief", "--suite", "x25519")
    key = house.folder / "brief.identity"
    kept = key.read_bytes()
    house.ok("keys", "destroy", "brief.identity", "--reason", "test", "--yes")
    key.write_bytes(kept)  # as if power had gone between the record and the erasure
    house.ok("keys", "destroy", "brief.identity", "--reason", "test", "--yes")
    assert not key.exists()


def test_what_cannot_be_erased_is_not_noted_as_destroyed(house: House) -> None:
    house.ok("keys", "recipient", "linked", "--suite", "x25519")
    (house.folder / "alias.identity").symlink_to("linked.identity")
    before = len(house.ledger())
    refused = house.call("keys", "destroy", "alias.identity", "--reason", "test", "--yes")
    assert refused.exit_code == 2
    assert "is a link" in refused.err
    assert len(house.ledger()) == before
    assert not (house.folder / "alias.destroyed").exists()


def test_rotation_makes_a_successor_and_keeps_the_old_key(house: House) -> None:
    house.ok("keys", "recipient", "yearly", "--suite", "x25519")
    first = house.ok("keys", "rotate", "yearly.identity")
    assert first["name"] == "yearly-2"
    assert house.ok("keys", "rotate", "yearly-2.identity")["name"] == "yearly-3"
    assert house.ok("keys", "rotate", "camera-7.camera")["name"] == "camera-8"
    assert (house.folder / "yearly.identity").exists()


def test_a_recipient_with_a_scope_is_sealed_to_within_it_only(house: House, tmp_path: Path) -> None:
    protect = ("protect", "clip.mp4", "-c", "camera-7.camera", "-o")
    house.ok("keys", "recipient", "past", "--suite", "x25519", "--until", "2020-01-01T00:00:00Z")
    refused = house.call(*protect, tmp_path / "a.mp4", "-r", "past.recipient")
    assert refused.exit_code == 2
    assert "none of the 1 has a scope" in refused.err
    house.ok("keys", "camera", "roof")
    house.ok("keys", "recipient", "roofer", "--suite", "x25519", "--camera", "roof.pub")
    assert house.call(*protect, tmp_path / "a.mp4", "-r", "roofer.recipient").exit_code == 2
    listed = house.call("keys", "list", "--json")
    assert listed.exit_code == 1
    states = {each["file"]: each["state"] for each in listed.json["keys"]}
    assert states["past.recipient"] == "any camera, EXPIRED 2020-01-01"
    assert states["roofer.recipient"] == "1 cameras, no end"


def test_a_key_in_a_token_opens_recordings(tmp_path: Path) -> None:
    """In processes of their own: SoftHSM reads its configuration once."""
    configuration = softhsm.configure(tmp_path / "hsm")
    softhsm.make_token("custody", configuration)
    uri = softhsm.token_uri("custody", "november")
    env = environment(SOFTHSM2_CONF=str(configuration), VEILCAM_PASSPHRASE=softhsm.PIN)
    make_source(tmp_path / "clip.mp4", seconds=1)
    made = veilcam("keys", "recipient", "november", "--in", uri, cwd=tmp_path, env=env)
    assert made.exit_code == 0, made.err
    record(tmp_path, "november")
    for step in (
        ("decode", "november.mp4", "-o", "back.mp4", "-i", uri),
        ("keys", "destroy", uri, "--reason", "retention", "--yes"),
    ):
        ended = veilcam(*step, cwd=tmp_path, env=env)
        assert ended.exit_code == 0, f"{step}: {ended.err}"
    assert stream_digests(tmp_path / "back.mp4") == stream_digests(tmp_path / "clip.mp4")
    gone = veilcam("decode", "november.mp4", "-o", "b.mp4", "-i", uri, cwd=tmp_path, env=env)
    assert gone.exit_code == 4
    assert (tmp_path / "november.destroyed").exists()
