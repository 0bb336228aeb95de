"""Every shell snippet of the README is run as it stands, in order, in one folder.

A comment before a block says how: ``<!-- run: dry -->`` asks make for its plan only, ``<!-- run: serve -->``
starts the first command, runs the others once it answers, and stops it as Ctrl-C would.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.veilcam.cli import ROOT, environment
from veilcam.assets import SAMPLE

_BLOCK = re.compile(r"(?:<!-- run: (?P<how>\w+) -->\n)?```sh\n(?P<body>.*?)```", re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)\)")
README = (ROOT / "README.md").read_text()


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block and how to run it."""

    how: str
    body: str


BLOCKS = [Block(match["how"] or "run", match["body"]) for match in _BLOCK.finditer(README)]


def _environment(folder: Path) -> dict[str, str]:
    """With a ``veilcam`` on the PATH that is this checkout's."""
    program = folder.parent / "bin" / "veilcam"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m veilcam "$@"\n')
    program.chmod(0o755)
    return environment(
        PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}", VEILCAM_LEDGER=str(folder / "ledger")
    )


def _shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _serve(body: str, folder: Path) -> None:
    """The README's port may be taken here, so another one stands in for it."""
    port = _free_port()
    first, *others = body.replace("8080", str(port)).strip().splitlines()
    with subprocess.Popen(
        ["bash", "-c", f"exec {first}"], cwd=folder, env=_environment(folder), stdin=subprocess.DEVNULL
    ) as process:
        try:
            _wait_until_ready(f"http://127.0.0.1:{port}/readyz", process)
            for line in others:
                done = _shell(line, folder)
                assert done.returncode == 0, f"{line}\n{done.stderr}"
                assert done.stdout.strip(), line
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
    assert list((folder / "recordings").rglob("*.mp4"))


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the camera ended by itself"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  # our own http URL
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"{url}: not ready within a minute")


def _dry(body: str) -> None:
    """Ask make what it would do; making everything again inside the tests would take minutes."""
    for line in body.strip().splitlines():
        target = line.split("#")[0].split()[1]
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_snippet_runs(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(SAMPLE, folder / "street.mp4")
    assert len(BLOCKS) >= 5
    for block in BLOCKS:
        if block.how == "serve":
            _serve(block.body, folder)
            continue
        if block.how == "dry":
            _dry(block.body)
            continue
        done = _shell(block.body, folder)
        assert done.returncode == 0, f"{block.body}\n{done.stdout}\n{done.stderr}"


def test_every_link_leads_somewhere() -> None:
    for document in (
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/architecture.md",
        "docs/adr/0000-index.md",
    ):
        path = ROOT / document
        for target in _LINK.findall(path.read_text()):
            assert target.startswith("https://") or (path.parent / target).exists(), f"{document}: {target}"


def test_the_picture_is_small() -> None:
    assert (ROOT / "docs/images/sheet.jpg").stat().st_size < 250_000


def test_the_readme_does_not_promise_anonymity() -> None:
    for line in README.splitlines():
        assert "anonymous" not in line.lower() or "not anonymous" in line.lower()


def test_every_command_in_the_readme_exists_in_the_help() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "veilcam", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    for name in set(re.findall(r"^veilcam (\w+)", README, re.MULTILINE)):
        assert re.search(rf"^  {name} ", done.stdout, re.MULTILINE), name
