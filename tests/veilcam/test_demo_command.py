from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from pathlib import Path

import cv2
import pytest

from tests.veilcam.cli import command, environment, veilcam, veilcam_inside
from tests.veilcam.conftest import Studio

STEPS = ("keys", "protect", "live", "detect", "verify", "decode", "stranger", "tampered")


@pytest.fixture(scope="module")
def shown(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A demonstration on the short clip, and its summary."""
    out = tmp_path_factory.mktemp("demo") / "out"
    arguments = ("--input", studio.folder / "clip.mp4", "--out", out, "--live-seconds", "2", "--json")
    ended = veilcam("demo", *arguments, timeout_s=170)
    assert ended.exit_code == 0, ended.err
    return out, ended.json


@pytest.mark.slow
def test_every_step_ends_as_it_must(shown: tuple[Path, dict[str, object]]) -> None:
    out, summary = shown
    assert json.loads((out / "summary.json").read_text()) == summary
    assert set(STEPS) < set(summary)
    document = json.loads((out / "summary.json").read_text())
    assert document["verify"]["verdict"] == "AUTHENTIC"
    assert (document["stranger"]["exit_code"], document["tampered"]["exit_code"]) == (4, 3)
    for stream in document["decode"]["streams"]:
        assert stream["sha256_original"] == stream["sha256_decoded"]
    assert set(document["live"]["verdicts"]) == {"AUTHENTIC"}
    assert document["live"]["frames"] >= 2


@pytest.mark.slow
def test_the_sheet_and_every_promised_file_is_there(shown: tuple[Path, dict[str, object]]) -> None:
    out, _ = shown
    sheet = cv2.imread(str(out / "sheet.png"))
    assert sheet is not None
    assert sheet.shape[1] == 1928
    assert (out / "sheet.jpg").stat().st_size <= 240_000
    for name in ("protected.mp4", "decoded.mp4", "annotated.mp4", "detections.jsonl", "ledger.jsonl"):
        assert (out / name).stat().st_size > 0


@pytest.mark.slow
def test_the_passphrase_beside_the_keys_opens_the_identity_for_the_visitor(
    shown: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    out, _ = shown
    secret = out / "keys" / "passphrase.txt"
    assert secret.stat().st_mode & 0o777 == 0o600
    env = environment(VEILCAM_PASSPHRASE=secret.read_text().strip())
    arguments = ("decode", "protected.mp4", "-o", tmp_path / "b.mp4", "-i", "keys/custodian.identity")
    assert veilcam_inside(*arguments, cwd=out, env=env).exit_code == 0


def test_a_folder_that_is_not_a_demo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    ended = veilcam_inside("demo", "--out", tmp_path, "--force", cwd=tmp_path)
    assert ended.exit_code == 2
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.slow
def test_serving_keeps_the_page_up_until_ctrl_c(studio: Studio, tmp_path: Path) -> None:
    arguments = (
        "--input",
        "clip.mp4",
        "--out",
        tmp_path / "o",
        "--live-seconds",
        "1",
        "--serve",
        "--listen",
        ":0",
    )
    process = subprocess.Popen(
        command("demo", *arguments),
        cwd=studio.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("live: open ")), None)
        assert line is not None, process.communicate()[1]
        with urllib.request.urlopen(line.split()[2], timeout=10) as page:  # noqa: S310  # our own http URL
            assert b"<video" in page.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "stopped" in out
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
