from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from base.version import __version__
from tests.veilcam.cli import ROOT, environment, veilcam, veilcam_inside

COMMANDS = (
    "demo",
    "keys recipient",
    "keys camera",
    "keys show",
    "protect",
    "camera run",
    "detect",
    "verify",
    "decode",
    "doctor",
    "version",
)
GROUPS = ("", "keys", "camera", "train")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_examples_and_offers_json(command: str, tmp_path: Path) -> None:
    ended = veilcam_inside(*command.split(), "--help", cwd=tmp_path)
    assert ended.exit_code == 0
    assert (
        f"Examples:\n    veilcam {command}" in ended.out
        or f"veilcam {command}" in ended.out.split("Examples:")[1]
    )
    assert "--json" in ended.out
    assert ended.err == ""


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_lists_its_commands(group: str, tmp_path: Path) -> None:
    ended = veilcam_inside(*group.split(), "--help", cwd=tmp_path)
    assert ended.exit_code == 0
    assert "Commands:" in ended.out


@pytest.mark.parametrize(
    "arguments",
    [
        "kees",
        "keys recipient",
        "version --nope",
        "keys show",
        "protect",
        "verify x --camera",
        "detect x --every 0",
    ],
)
def test_wrong_usage_is_status_2_with_at_most_two_lines(arguments: str, tmp_path: Path) -> None:
    ended = veilcam_inside(*arguments.split(), cwd=tmp_path)
    assert ended.exit_code == 2
    assert "Traceback" not in ended.err
    assert len(ended.err.splitlines()) <= 2


@pytest.mark.parametrize("group", ["", "keys", "camera"])
def test_a_group_alone_shows_its_help_with_status_2(group: str, tmp_path: Path) -> None:
    ended = veilcam_inside(*group.split(), cwd=tmp_path)
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err.startswith("Usage: veilcam")
    assert "Commands:" in ended.err


def test_a_mistyped_command_is_told_the_near_one() -> None:
    assert "'keys'" in veilcam("kees").err


@pytest.mark.parametrize("arguments", [["--help"], ["keys", "show", "nothing"]], ids=["help", "keys"])
def test_help_and_key_commands_load_no_media_and_no_network_packages(arguments: list[str]) -> None:
    code = (
        "import contextlib, os, sys; from veilcam.cli.run import main\n"
        "with contextlib.redirect_stdout(open(os.devnull, 'w')), contextlib.suppress(SystemExit):\n"
        f"    main({arguments})\n"
        "heavy = {'av', 'cv2', 'numpy', 'onnxruntime', 'aiohttp', 'aiortc', 'rich', 'torch'}\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment()
    )
    assert done.stdout.strip() == "[]"


def test_debug_mode_adds_the_traceback() -> None:
    assert "Traceback" in veilcam("keys", "show", "nothing", env=environment(VEILCAM_DEBUG="1")).err


def test_an_error_with_json_is_a_document_too() -> None:
    ended = veilcam("keys", "show", "nothing", "--json")
    assert ended.exit_code == 2
    assert ended.json["ok"] is False
    assert ended.json["exit_code"] == 2
    assert "nothing" in ended.json["error"]["message"]


def test_version_is_the_one_of_the_package() -> None:
    assert veilcam("version").out == f"veilcam {__version__}\n"
    assert veilcam("version", "--json").json == {"ok": True, "version": __version__}


def test_a_reader_that_goes_away_causes_no_traceback() -> None:
    line = f"{sys.executable} -m veilcam --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, cwd=ROOT, env=environment(), check=False
    )
    assert "Traceback" not in done.stderr
