from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import pytest

from tests.veilcam.cli import command, environment, veilcam_inside
from tests.veilcam.conftest import Studio

STEPS = ("keys", "protect", "live", "detect", "verify", "decode", "stranger", "tampered")


@dataclass(frozen=True, slots=True)
class Shown:
    """A demonstration on the short clip, served and ended: its folder, summary, what it printed, the page."""

    out: Path
    summary: dict[str, Any]
    printed: str
    page: bytes
    exit_code: int


@pytest.fixture(scope="module")
def shown(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Run it once, as a visitor would: watch until it serves, open the page, press Ctrl-C."""
    out = tmp_path_factory.mktemp("demo") / "out"
    arguments = ("--input", "clip.mp4", "--out", out, "--live-seconds", "1", "--serve", "--listen", ":0")
    with subprocess.Popen(
        command("demo", *arguments),
        cwd=studio.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            printed = []
            for line in process.stdout:
                printed.append(line)
                if line.startswith("live: open "):
                    break
            else:
                pytest.fail("it ended early:\n" + "".join(printed))
            url = printed[-1].split()[2]
            with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310  # our own http URL
                page = answer.read()
            process.send_signal(signal.SIGINT)
            printed += process.stdout
            exit_code = process.wait(60)
        finally:
            process.kill()
    return Shown(out, json.loads((out / "summary.json").read_text()), "".join(printed), page, exit_code)


@pytest.mark.slow
def test_every_step_ends_as_it_must(shown: Shown) -> None:
    summary = shown.summary
    assert set(STEPS) < set(summary)
    assert summary["verify"]["verdict"] == "AUTHENTIC"
    assert (summary["stranger"]["exit_code"], summary["tampered"]["exit_code"]) == (4, 3)
    for stream in summary["decode"]["streams"]:
        assert stream["sha256_original"] == stream["sha256_decoded"]
        assert stream["sha256_original"] in shown.printed
    assert set(summary["live"]["verdicts"]) == {"AUTHENTIC"}
    assert summary["live"]["frames"] >= 2


@pytest.mark.slow
def test_the_sheet_and_every_promised_file_is_there(shown: Shown) -> None:
    sheet = cv2.imread(str(shown.out / "sheet.png"))
    assert sheet is not None
    assert sheet.shape[1] == 1928
    assert (shown.out / "sheet.jpg").stat().st_size <= 240_000
    for name in ("protected.mp4", "decoded.mp4", "annotated.mp4", "detections.jsonl", "ledger.jsonl"):
        assert (shown.out / name).stat().st_size > 0


@pytest.mark.slow
def test_the_live_page_stays_up_until_ctrl_c(shown: Shown) -> None:
    assert b"<video" in shown.page
    assert shown.exit_code == 0
    assert "stopped" in shown.printed


@pytest.mark.slow
def test_the_passphrase_beside_the_keys_opens_the_identity_for_the_visitor(
    shown: Shown, tmp_path: Path
) -> None:
    secret = shown.out / "keys" / "passphrase.txt"
    assert secret.stat().st_mode & 0o777 == 0o600
    env = environment(VEILCAM_PASSPHRASE=secret.read_text().strip())
    arguments = ("decode", "protected.mp4", "-o", tmp_path / "b.mp4", "-i", "keys/custodian.identity")
    assert veilcam_inside(*arguments, cwd=shown.out, env=env).exit_code == 0


def test_a_folder_that_is_not_a_demo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    ended = veilcam_inside("demo", "--out", tmp_path, "--force", cwd=tmp_path)
    assert ended.exit_code == 2
    assert (tmp_path / "thesis.txt").exists()
