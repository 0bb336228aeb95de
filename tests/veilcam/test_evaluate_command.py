"""``veilcam evaluate`` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from veilcam.cli.run import main


def test_without_data_only_a_quick_run_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--out", str(tmp_path / "out")]) == 2
    assert "only --quick works without" in capsys.readouterr().err


def test_an_unknown_part_is_a_usage_error_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["evaluate", "--data", str(tmp_path), "--out", str(out), "--only", "everything"]) == 2
    assert "expected some of utility" in capsys.readouterr().err
    assert not out.exists()


def test_a_quick_run_writes_report_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["evaluate", "--quick", "--out", str(out), "--only", "plates,keys", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    stored = json.loads((out / "results.json").read_text())
    assert printed["ok"] is True
    assert printed["parts"] == stored["parts"]
    assert [part["name"] for part in stored["parts"]] == ["keys", "plates"]
    assert not stored["parts"][0]["skipped"]
    assert (out / "report.html").read_text().startswith("<!doctype html>")
