from __future__ import annotations

from pathlib import Path

import pytest

from forensics.ledger import Ledger
from tests.forensics.ledger_checker import check_proof
from tests.veilcam.cli import Ended, environment, veilcam_inside


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of five openings."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for number in range(5):
        ledger.append("open", {"case": f"A-{number}", "reason": "theft", "who": {"user": "iris"}})
    return ledger.path


def _audit(path: Path, *arguments: str | Path) -> Ended:
    return veilcam_inside("audit", *arguments, cwd=path.parent, env=environment(VEILCAM_LEDGER=str(path)))


def test_list_and_show_find_entries(path: Path) -> None:
    listed = _audit(path, "list", "--case", "A-3", "--json")
    assert [entry["seq"] for entry in listed.json["entries"]] == [3]
    assert _audit(path, "list", "theft", "--limit", "2").out.count("iris") == 2
    assert _audit(path, "list", "--rebuild", "--since", "2999-01-01T00:00:00Z").out == ""
    assert '"A-4"' in _audit(path, "show", "4").out
    assert _audit(path, "show", "5").exit_code == 2
    assert _audit(path, "list", "--since", "5").exit_code == 2


def test_verify_says_intact_or_what_is_wrong(path: Path) -> None:
    good = _audit(path, "verify", "--json")
    assert (good.exit_code, good.json["intact"], good.json["entries"]) == (0, True, 5)
    path.write_bytes(path.read_bytes().replace(b"A-2", b"B-2"))
    bad = _audit(path, "verify")
    assert (bad.exit_code, "BROKEN" in bad.out, "line 3" in bad.out) == (3, True, True)


def test_a_checkpoint_kept_elsewhere_shows_a_cut_end(path: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.checkpoint"
    assert _audit(path, "checkpoint", "-o", kept).exit_code == 0
    assert _audit(path, "verify", "--checkpoint", kept).exit_code == 0
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    assert _audit(path, "verify").exit_code == 0
    cut = _audit(path, "verify", "--checkpoint", kept)
    assert (cut.exit_code, "cut off" in cut.out) == (3, True)


def test_proofs_are_checked_without_the_ledger(path: Path, tmp_path: Path) -> None:
    kept, proof, later = (tmp_path / name for name in ("kept", "3.proof", "later.proof"))
    _audit(path, "checkpoint", "-o", kept)
    Ledger(path).append("open", {"case": "A-5"})
    made = _audit(path, "prove", "3", "-o", proof, "--json")
    key = made.json["key"]
    assert _audit(path, "prove", "--since", kept, "-o", later).exit_code == 0
    path.unlink()
    assert '"A-3"' in _audit(path, "check", proof, "--key", key).out
    assert _audit(path, "check", later, "--key", key, "--json").json["first"] == 5
    assert check_proof(proof.read_bytes(), key)["body"]["case"] == "A-3"
    assert check_proof(later.read_bytes(), key) == (5, 6)

    proof.write_bytes(proof.read_bytes().replace(b"A-3", b"A-4"))
    assert _audit(path, "check", proof, "--key", key).exit_code == 3
    assert _audit(path, "check", kept, "--key", key).exit_code == 2
    assert _audit(path, "check", later, "--key", "nonsense").exit_code == 2


def test_a_missing_ledger_is_a_usage_error(tmp_path: Path) -> None:
    for command in (("list",), ("verify",), ("show", "1"), ("checkpoint", "-o", tmp_path / "x")):
        assert _audit(tmp_path / "none.jsonl", *command).exit_code == 2


def test_prove_wants_one_thing(path: Path, tmp_path: Path) -> None:
    assert _audit(path, "prove", "-o", tmp_path / "x").exit_code == 2
