from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.veilcam.cli import command, environment
from tests.veilcam.conftest import Studio

KEYS = ("-r", "keys/custodian.recipient", "-c", "keys/gate.camera")
ANYWHERE = ("--listen", "127.0.0.1:0")


@contextmanager
def _running(
    studio: Studio, *arguments: str | Path
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A camera that has said that it is ready."""
    process = subprocess.Popen(
        command("camera", "run", *arguments, "--json"),
        cwd=studio.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _wait_for_pictures(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{url}api/v1/state", timeout=10) as answer:  # noqa: S310  # our own http URL
            if json.load(answer)["picture"]["width"]:
                return
        time.sleep(0.2)
    pytest.fail("no picture within a minute")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order_and_the_recording_is_complete(
    studio: Studio, tmp_path: Path, number: signal.Signals
) -> None:
    source = ("--source", "clip.mp4", "--loop", "--record", tmp_path, "--name", "gate")
    with _running(studio, *source, *KEYS, *ANYWHERE) as (process, ready):
        assert ready["event"] == "ready"
        with urllib.request.urlopen(ready["url"], timeout=10) as page:  # noqa: S310  # our own http URL
            assert page.status == 200
        _wait_for_pictures(ready["url"])
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out.splitlines()[-1])["event"] == "ended"
    (file,) = tmp_path.rglob("*.mp4")
    assert studio.call("verify", file, "--camera", "keys/gate.pub").exit_code == 0


@pytest.mark.slow
def test_a_source_that_ends_is_status_0(studio: Studio) -> None:
    with _running(studio, "--source", "synthetic:?seconds=2&size=320x240&fps=10", *KEYS, *ANYWHERE) as (
        process,
        _,
    ):
        out, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
        assert json.loads(out.splitlines()[-1])["pictures"] >= 1


def test_a_port_in_use_is_status_1_and_named(studio: Studio) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = studio.run("camera", "run", "--source", "clip.mp4", *KEYS, "--listen", f"127.0.0.1:{port}")
    assert ended.exit_code == 1
    assert str(port) in ended.err
    assert "Traceback" not in ended.err
    assert len([line for line in ended.err.splitlines() if line.startswith("veilcam: ")]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "source"),
        (("--source", "clip.mp4", *KEYS, "--listen", "0.0.0.0:0"), "token"),
        (("--source", "clip.mp4", *KEYS, "--listen", "nowhere:port"), "HOST:PORT"),
        (("--source", "nothing.mp4", *KEYS, *ANYWHERE), "nothing.mp4"),
        (("--source", "clip.mp4", *KEYS, *ANYWHERE, "--config", "missing.yaml"), "missing.yaml"),
        (("--source", "clip.mp4", *KEYS, *ANYWHERE, "--crf", "99"), "--crf"),
        (("--source", "clip.mp4", *KEYS, *ANYWHERE, "--sealed", "mpeg2"), "--sealed"),
    ],
)
def test_what_cannot_work_is_refused_as_usage(studio: Studio, arguments: tuple[str, ...], words: str) -> None:
    ended = studio.call("camera", "run", *arguments)
    assert ended.exit_code == 2, ended.err
    assert words in ended.err


def test_an_unknown_key_in_the_settings_names_the_near_one(studio: Studio, tmp_path: Path) -> None:
    settings = tmp_path / "gate.yaml"
    settings.write_text(
        "source: 'synthetic:'\ncamera: a.camera\nrecipients: [b.recipient]\nrecrod: {folder: x}\n"
    )
    ended = studio.call("camera", "run", "--config", settings)
    assert ended.exit_code == 2
    assert "did you mean record?" in ended.err


def test_a_folder_that_cannot_be_written_stops_the_start(studio: Studio) -> None:
    ended = studio.run("camera", "run", "--source", "clip.mp4", *KEYS, *ANYWHERE, "--record", "/proc/nowhere")
    assert ended.exit_code in {1, 2}
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_settings_from_a_file_are_overridden_by_options(studio: Studio, tmp_path: Path) -> None:
    settings = tmp_path / "gate.yaml"
    keys = os.path.relpath(studio.folder / "keys", tmp_path)
    settings.write_text(
        f"name: yard\nsource: nothing.mp4\ncamera: {keys}/gate.camera\n"
        f"recipients: [{keys}/custodian.recipient]\n"
    )
    source = ("--source", "synthetic:?size=320x240&fps=5")
    with _running(studio, "--config", settings, *source, *ANYWHERE) as (process, ready):
        url = ready["url"] + "api/v1/state"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  # our own http URL
            assert json.load(answer)["name"] == "yard"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
