from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import pytest

from tests.veilcam.cli import environment, veilcam
from veilcam.checks.finding import Status
from veilcam.checks.media import check_codecs
from veilcam.checks.model import check_weights
from veilcam.checks.packages import check_not_shadowed, check_python
from veilcam.checks.system import check_clock, check_folders, check_port


def test_a_machine_that_runs_the_tests_passes() -> None:
    ended = veilcam("doctor", "--json")
    assert ended.exit_code == 0, ended.out
    document = ended.json
    assert document["ok"] is True
    groups = {finding["group"] for finding in document["findings"]}
    assert groups == {"packages", "media", "networks", "system"}


def test_the_text_report_ends_with_a_verdict() -> None:
    ended = veilcam("doctor")
    assert ended.out.rstrip().endswith("Everything needed works.")


def test_an_unwritable_temporary_folder_is_status_1_and_named(tmp_path: Path) -> None:
    ended = veilcam("doctor", "--json", cwd=Path("/proc"), env=environment())
    assert ended.exit_code == 1
    assert ended.json["broken"] == ["current folder"]


def test_python_codecs_clock_and_folders_are_fine_here() -> None:
    for check in (check_python, check_codecs, check_clock, check_folders, check_not_shadowed):
        assert {finding.status for finding in check()} == {Status.OK}, check


def test_a_port_in_use_is_noted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (busy,) = check_port("127.0.0.1", port)
    assert (busy.status, "in use" in busy.detail) == (Status.NOTE, True)


def _card(folder: Path, digest: str) -> None:
    card = {
        "card": 1,
        "name": "test",
        "files": {"p.onnx": {"sha256": digest}},
        "network": {"bands": 5, "size_multiple": 32},
    }
    (folder / "p.json").write_text(json.dumps(card))


def test_weights_are_compared_with_their_card(tmp_path: Path) -> None:
    (tmp_path / "p.onnx").write_bytes(b"weights")
    _card(tmp_path, hashlib.sha256(b"weights").hexdigest())
    assert [finding.status for finding in check_weights(tmp_path)] == [Status.OK]
    (tmp_path / "p.onnx").write_bytes(b"other weights")
    (changed,) = check_weights(tmp_path)
    assert (changed.status, "the card says" in changed.detail) == (Status.BROKEN, True)
    (tmp_path / "p.onnx").unlink()
    (gone,) = check_weights(tmp_path)
    assert (gone.status, "missing" in gone.detail) == (Status.BROKEN, True)


@pytest.mark.parametrize("text", ["", "{}", "[1, 2", '{"card": 1, "files": 5}'])
def test_a_broken_card_is_broken(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    assert [finding.status for finding in check_weights(tmp_path)] == [Status.BROKEN]


def test_no_card_at_all_is_broken(tmp_path: Path) -> None:
    assert [finding.status for finding in check_weights(tmp_path)] == [Status.BROKEN]
