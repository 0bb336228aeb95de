"""Whatever a command is given: one or two lines, the right status, no traceback, nothing left behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.veilcam.cli import command, environment
from tests.veilcam.conftest import Studio

COMMANDS = {
    "protect": "protect {bad} -o {out} -r keys/custodian.recipient -c keys/gate.camera",
    "verify": "verify {bad} --camera keys/gate.pub",
    "decode": "decode {bad} -o {out} --identity keys/custodian.identity",
    "detect": "detect {bad} --detector hog",
}
INPUTS = {"missing": 2, "folder": 2, "empty": 1, "text": 1, "noise": 1}


@pytest.fixture(scope="session")
def bad(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Inputs that are no video."""
    folder = tmp_path_factory.mktemp("bad")
    paths = {name: folder / f"{name}.mp4" for name in INPUTS}
    paths["folder"].mkdir()
    paths["empty"].touch()
    paths["text"].write_text("Dear diary,\n" * 100)
    paths["noise"].write_bytes(bytes((i * 7919 + i * i * 31) % 256 for i in range(50_000)))
    return paths


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_input_gives_a_short_message_and_no_output(
    studio: Studio, bad: dict[str, Path], tmp_path: Path, command: str, kind: str
) -> None:
    out = tmp_path / "out.mp4"
    ended = studio.call(*COMMANDS[command].format(bad=bad[kind], out=out).split())
    assert ended.exit_code == INPUTS[kind], ended.err
    assert 1 <= len(ended.err.splitlines()) <= 2
    assert ended.err.startswith("veilcam: ")
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


WRONG_KEYS = (
    "protect clip.mp4 -o {out} -r keys/custodian.identity -c keys/gate.camera",
    "protect clip.mp4 -o {out} -r keys/gate.pub -c keys/gate.camera",
    "protect clip.mp4 -o {out} -r keys/custodian.recipient -c keys/gate.pub",
    "protect clip.mp4 -o {out} -r clip.mp4 -c keys/gate.camera",
    "protect clip.mp4 -o {out} -r keys/nobody.recipient -c keys/gate.camera",
    "verify protected.mp4 --camera keys/gate.camera",
    "verify protected.mp4 --camera keys/custodian.recipient",
    "verify protected.mp4 --camera keys",
    "decode protected.mp4 -o {out} --identity keys/custodian.recipient",
    "decode protected.mp4 -o {out} --identity clip.mp4",
    "camera run --source clip.mp4 -r keys/custodian.identity -c keys/gate.camera --listen 127.0.0.1:0",
    "camera run --source clip.mp4 -r keys/custodian.recipient -c keys/gate.pub --listen 127.0.0.1:0",
    "keys show clip.mp4",
)


@pytest.mark.parametrize("line", WRONG_KEYS)
def test_a_key_file_of_the_wrong_kind_is_a_mistake_of_usage(
    studio: Studio, tmp_path: Path, line: str
) -> None:
    ended = studio.call(*line.format(out=tmp_path / "out.mp4").split())
    assert ended.exit_code == 2, ended.err
    assert 1 <= len(ended.err.splitlines()) <= 2
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


_KEYS = "-r keys/custodian.recipient -c keys/gate.camera"
PIPES = (
    f"protect {{pipe}} -o {{out}} {_KEYS}",
    f"protect file:{{pipe}} -o {{out}} {_KEYS}",
    "protect clip.mp4 -o {out} -r {pipe} -c keys/gate.camera",
    "protect clip.mp4 -o {out} -r keys/custodian.recipient -c {pipe}",
    "verify {pipe} --camera keys/gate.pub",
    "verify protected.mp4 --camera {pipe}",
    "decode {pipe} -o {out} --identity keys/custodian.identity",
    "decode protected.mp4 -o {out} --identity {pipe}",
    "detect {pipe} --detector hog",
    "keys show {pipe}",
    "camera run --config {pipe}",
    f"camera run --source clip.mp4 {_KEYS} --listen 127.0.0.1:0 --token-file {{pipe}}",
)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", PIPES)
def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(
    studio: Studio, tmp_path: Path, line: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ended = studio.call(*line.format(pipe=pipe, out=tmp_path / "out.mp4").split())
    assert ended.exit_code == 2, ended.err
    assert "regular file" in ended.err
    assert 1 <= len(ended.err.splitlines()) <= 2
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_private_camera_key_that_others_may_read_is_refused_with_the_remedy(
    studio: Studio, tmp_path: Path
) -> None:
    loose = tmp_path / "loose.camera"
    loose.write_bytes((studio.folder / "keys/gate.camera").read_bytes())
    loose.chmod(0o644)
    out = tmp_path / "out.mp4"
    ended = studio.call("protect", "clip.mp4", "-o", out, "-r", "keys/custodian.recipient", "-c", loose)
    assert ended.exit_code == 4
    assert "chmod 600" in ended.err
    assert not out.exists()


@pytest.mark.parametrize("target", ["/proc/out.mp4", "no/such/folder/out.mp4", "keys"])
@pytest.mark.parametrize("command", ["protect", "decode"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    studio: Studio, command: str, target: str
) -> None:
    source = "clip.mp4" if command == "protect" else "protected.mp4"
    ended = studio.call(*COMMANDS[command].format(bad=source, out=target).split())
    assert ended.exit_code in {1, 2}
    assert 1 <= len(ended.err.splitlines()) <= 2
    assert "Traceback" not in ended.err


REGIONS = {
    f"protect clip.mp4 -o {{out}} {_KEYS} --sealed-regions 4x4": "sealed modes av1, hevc, h264, ffv1",
    f"protect clip.mp4 -o {{out}} {_KEYS} --sealed copy --sealed-regions 4x4": "cannot be cut",
    f"protect clip.mp4 -o {{out}} {_KEYS} --sealed h264 --sealed-regions 4by4": "COLSxROWS",
    f"protect clip.mp4 -o {{out}} {_KEYS} --sealed h264 --sealed-regions 9x9": "1 to 64 regions",
    "decode protected.mp4 -o {out} -i keys/custodian.identity --regions 1,2,3": "x,y,w,h",
    "decode protected.mp4 -o {out} -i keys/custodian.identity --track 7": "--tracks",
    "decode protected.mp4 -o {out} -i keys/custodian.identity --track 7 --tracks clip.mp4": "line 1",
}


@pytest.mark.parametrize("line", REGIONS)
def test_parts_of_the_picture_that_cannot_be_meant_are_a_mistake_in_one_line(
    studio: Studio, tmp_path: Path, line: str
) -> None:
    ended = studio.call(*line.format(out=tmp_path / "out.mp4").split())
    assert ended.exit_code in (1, 2, 3), ended.err
    assert REGIONS[line] in ended.err
    assert 1 <= len(ended.err.splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


def test_with_its_input_closed_a_command_says_what_it_needs(studio: Studio, tmp_path: Path) -> None:
    bare = {name: value for name, value in environment().items() if name != "VEILCAM_PASSPHRASE"}
    line = command("decode", "protected.mp4", "-o", tmp_path / "x.mp4", "-i", "keys/custodian.identity")
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *line]
    done = subprocess.run(closed, cwd=studio.folder, env=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, "set VEILCAM_PASSPHRASE" in done.stderr) == (4, True), done.stderr
