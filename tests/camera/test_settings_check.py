from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from base.errors import UsageError
from camera.settings import CameraSettings, load_settings
from camera.settings_check import find_problems, schema, shown

MINIMUM = "source: synthetic\ncamera: gate.camera\nrecipients: [custody.recipient]\n"
FULL = (
    MINIMUM
    + """\
name: north-gate
coding: {sealed: h264, crf: 30}
record: {folder: tapes, max_age_days: 3}
http: {listen: "127.0.0.1:0", token_file: secrets/token}
events:
  file: events.jsonl
  webhook: https://hooks.example/T00/secret-path
  webhook_token_file: secrets/hook
  mqtt: mqtt://user:secret-word@broker.example/site
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.camera").touch()
    (tmp_path / "custody.recipient").touch()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("a-token-of-some-length\n")
    (tmp_path / "secrets" / "hook").write_text("secret-hook-token\n")
    return tmp_path


def load(folder: Path, text: str) -> CameraSettings:
    path = folder / "camera.yaml"
    path.write_text(text)
    return load_settings(path, {})


def test_settings_that_can_run_have_no_problem(folder: Path) -> None:
    assert find_problems(load(folder, MINIMUM), {}) == []
    settings = load(folder, FULL)
    assert find_problems(settings, {}) == []
    assert [target.name for target in settings.event_targets()] == [
        "events.jsonl",
        "https://hooks.example",
        "mqtt://broker.example:1883",
    ]
    assert settings.events.webhook_token_file == folder / "secrets" / "hook"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("recipients: [nobody.recipient]", "recipients.0: no such file"),
        ("camera: other.camera", "camera: no such file"),
        ("http: {listen: '0.0.0.0:80'}", "http: listening on 0.0.0.0"),
        ("source: nowhere.mp4", "source: source: no such file: nowhere.mp4"),
        ("source: 'whip:'", "http: source whip: nobody could push without a token"),
        ("http: {token_file: nowhere}", "http: token file"),
        ("http: {listen: ':x'}", "http: listen address"),
        ("events: {mqtt: 'mqtt://'}", "events: MQTT"),
        ("events: {webhook: 'https://h/x', webhook_token_file: gone}", "events: secret file"),
        ("record: {folder: gate.camera/inside}", "record.folder: cannot be written"),
        ("publish: ['ftp://x/y']", "publish.0: "),
    ],
)
def test_each_problem_is_named_with_its_key(folder: Path, change: str, expected: str) -> None:
    key = change.partition(":")[0]
    kept = "".join(line + "\n" for line in MINIMUM.splitlines() if not line.startswith(key + ":"))
    problems = find_problems(load(folder, kept + change + "\n"), {})
    assert len(problems) == 1
    assert problems[0].startswith(expected)


def test_a_key_of_a_list_entry_gets_a_hint_too(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"publish\.0\.\S*layr: unknown key, did you mean layer\?"):
        load(folder, MINIMUM + "publish: [{url: 'srt://h:1', layr: sealed}]\n")


def test_what_is_shown_is_everything_but_secrets_and_can_be_loaded_again(folder: Path) -> None:
    text = FULL.replace("source: synthetic", "source: rtsp://user:secret-pass@gate.example/1?key=secret")
    settings = load(folder, text)
    values = shown(settings)
    printed = yaml.safe_dump(values) + json.dumps(values)
    assert "secret-" not in printed
    assert "key=secret" not in printed
    assert values["source"] == "rtsp://gate.example/1"
    assert values["events"]["webhook"] == "https://hooks.example/***"
    assert values["coding"]["crf"] == 30
    assert values["segments"]["target_s"] == 2.0  # a default
    assert set(values) == set(CameraSettings.model_fields)
    CameraSettings.model_validate({**values, "source": "synthetic"})


@pytest.mark.parametrize("text", [MINIMUM, FULL])
def test_the_schema_takes_what_the_settings_take(text: str) -> None:
    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    assert list(validator.iter_errors(yaml.safe_load(text))) == []


@pytest.mark.parametrize(
    "change",
    [{"recrod": {}}, {"coding": {"crf": 99}}, {"camera": None}, {"record": {"folder": 5}}, {"loop": "x"}],
)
def test_the_schema_refuses_what_the_settings_refuse(change: dict[str, Any]) -> None:
    values = {**yaml.safe_load(MINIMUM), **change}
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors(values))
    with pytest.raises(ValueError, match="validation error"):
        CameraSettings.model_validate(values)
