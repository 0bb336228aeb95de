from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.veilcam.cli import Ended, veilcam_inside

MINIMUM = "source: synthetic\ncamera: gate.camera\nrecipients: [custody.recipient]\n"


def in_process(*arguments: str | Path) -> Ended:
    return veilcam_inside(*arguments, cwd=Path.cwd())


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    (tmp_path / "gate.camera").touch()
    (tmp_path / "custody.recipient").touch()
    path = tmp_path / "gate.yaml"
    path.write_text(MINIMUM)
    return path


def test_three_lines_are_fine(settings_file: Path) -> None:
    ended = in_process("config", "check", settings_file, "--json")
    assert (ended.exit_code, ended.json["ok"], ended.json["problems"]) == (0, True, [])


def test_a_mistyped_key_is_status_2_with_the_key_that_was_meant(settings_file: Path) -> None:
    settings_file.write_text(MINIMUM + "recrod: {folder: x}\n")
    ended = in_process("config", "check", settings_file)
    assert ended.exit_code == 2
    assert "recrod: unknown key, did you mean record?" in ended.err


def test_a_value_where_a_section_belongs_is_told_so(settings_file: Path) -> None:
    settings_file.write_text(MINIMUM + "record: recordings\n")
    ended = in_process("config", "check", settings_file)
    assert ended.exit_code == 2
    assert "record: expected a section with keys such as folder, got 'recordings'" in ended.err


def test_a_missing_file_is_status_2_and_named(settings_file: Path) -> None:
    (settings_file.parent / "gate.camera").unlink()
    ended = in_process("config", "check", settings_file)
    assert ended.exit_code == 2
    assert "camera: no such file" in ended.out
    assert "1 problem found" in ended.out


def test_show_prints_yaml_that_is_a_settings_file(settings_file: Path) -> None:
    ended = in_process("config", "show", settings_file)
    assert yaml.safe_load(ended.out)["http"]["listen"] == "127.0.0.1:8080"


def test_the_schema_is_printed_and_written(tmp_path: Path) -> None:
    printed = in_process("config", "schema")
    assert json.loads(printed.out)["additionalProperties"] is False
    path = tmp_path / "schema.json"
    assert in_process("config", "schema", "-o", path).exit_code == 0
    assert path.read_text() == printed.out
    assert in_process("config", "schema", "-o", path).exit_code == 2


def test_nothing_to_check_is_a_usage_error() -> None:
    assert in_process("config", "check").exit_code == 2
