from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from base.errors import LimitExceeded, UsageError
from camera.settings import CameraSettings, load_settings

MINIMUM = """\
source: rtsp://gate.example/stream
camera: gate.camera
recipients: [custody.recipient]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "camera.yaml"
    path.write_text(text)
    return path


def load(folder: Path, text: str, environment: dict[str, str] | None = None, **over: Any) -> CameraSettings:
    return load_settings(write(folder, text), environment or {}, over)


def test_three_lines_are_enough_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    read = load(tmp_path, MINIMUM)
    assert read.camera == tmp_path / "gate.camera"
    assert read.recipients == (tmp_path / "custody.recipient",)
    assert read.source == "rtsp://gate.example/stream"
    assert read.recorder_options() is None
    assert read.http.listen == "127.0.0.1:8080"


def test_every_section_reaches_its_options(tmp_path: Path) -> None:
    read = load(
        tmp_path,
        MINIMUM
        + """\
name: north-gate
coding: {sealed: h264, crf: 30, max_bitrate_kbps: 2000}
segments: {target_s: 3, max_s: 5}
record: {folder: tapes, file_minutes: 5, max_age_days: 3, max_gb: 10}
""",
    )
    coding = read.coding_options()
    assert (coding.sealed, coding.crf, coding.max_bitrate_bps) == ("h264", 30, 2_000_000)
    assert (coding.cut.target_s, coding.cut.max_s) == (3, 5)
    recorder = read.recorder_options()
    assert recorder is not None
    assert (recorder.folder, recorder.camera_name, recorder.file_s) == (tmp_path / "tapes", "north-gate", 300)
    assert (recorder.retention.max_age_s, recorder.retention.max_bytes) == (259_200, 10_000_000_000)


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(tmp_path: Path) -> None:
    environment = {"VEILCAM__CODING__CRF": "33", "VEILCAM__RECORD__FOLDER": "/srv", "VEILCAM__LOOP": "true"}
    read = load(tmp_path, MINIMUM + "coding: {crf: 20, threads: 2}\n", environment, coding={"crf": 40})
    assert (read.coding.crf, read.coding.threads, read.record.folder, read.loop) == (
        40,
        2,
        Path("/srv"),
        True,
    )


def test_a_camera_can_be_set_up_by_the_environment_alone() -> None:
    environment = {"VEILCAM__SOURCE": "synthetic:", "VEILCAM__CAMERA": "c", "VEILCAM__RECIPIENTS": "a,b"}
    assert load_settings(None, environment).recipients == (Path("a"), Path("b"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("recrod: {folder: x}", "recrod: unknown key, did you mean record?"),
        ("coding: {cfr: 20}", "coding.cfr: unknown key, did you mean crf?"),
        ("zzz: 1", "zzz: unknown key, expected one of source, camera"),
        ("coding: {crf: 99}", "coding.crf: Input should be less than or equal to 51"),
        ("segments: {min_s: 3}", "expected 0 < min <= target <= max"),
        ("record: 5", "record: expected a section with keys such as folder, got 5"),
        ("name: ../x", "name: String should match pattern"),
    ],
)
def test_mistakes_are_named_with_their_dotted_path(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, MINIMUM + line)
    assert message in str(caught.value)


def test_missing_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="camera: is missing; recipients: is missing"):
        load(tmp_path, "source: synthetic")


def test_a_password_comes_from_the_environment_and_is_not_repeated_in_errors(tmp_path: Path) -> None:
    text = MINIMUM.replace("gate.example", "user:${CAM_PASSWORD}@gate.example")
    read = load(tmp_path, text, {"CAM_PASSWORD": "hunter2"})
    assert read.source == "rtsp://user:hunter2@gate.example/stream"
    assert "hunter2" not in repr(read)
    with pytest.raises(UsageError, match="CAM_PASSWORD is not set"):
        load(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text + "name: [1]\n", {"CAM_PASSWORD": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a",
        "just text",
        "a: [",
        "a: &x [1]\nb: *x",
        "\x00",
        "a: !!python/object:os.system {}",
        "? [1]\n: 2",
    ],
)
def test_what_is_not_plain_yaml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        load(tmp_path, text)


def test_a_huge_or_deep_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded):
        load(tmp_path, "x: " + "y" * 100_000)
    with pytest.raises(UsageError):
        load(tmp_path, "a: " + "[" * 2000 + "]" * 2000)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.binary(max_size=120))
def test_any_bytes_give_a_usage_error_or_settings(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "camera.yaml"
    path.write_bytes(data)
    with pytest.raises(UsageError):
        load_settings(path, {})
