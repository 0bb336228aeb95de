from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.veilcam.cli import ROOT, environment, veilcam
from tests.veilcam.conftest import Studio
from veilcam.cli.signals import terminating_like_ctrl_c


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminating_signal_unwinds_like_ctrl_c_and_is_left_as_it_was(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), terminating_like_ctrl_c():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminating_like_ctrl_c():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def _interrupting(folder: Path, module: str) -> dict[str, str]:
    """An environment in which importing ``module`` presses Ctrl-C."""
    (folder / f"{module}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    return environment(PYTHONPATH=os.pathsep.join((str(folder), str(ROOT))))


def test_ctrl_c_while_the_program_is_loading_is_one_line_and_status_130(tmp_path: Path) -> None:
    ended = veilcam("version", env=_interrupting(tmp_path, "typer"))
    assert (ended.exit_code, ended.out, ended.err) == (130, "", "veilcam: interrupted\n")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_ctrl_c_in_a_command_is_one_line_and_status_130(
    studio: Studio, tmp_path: Path, form: tuple[str, ...]
) -> None:
    keys = ("-r", "keys/custodian.recipient", "-c", "keys/gate.camera")
    out = tmp_path / "out.mp4"
    ended = studio.run("protect", "clip.mp4", "-o", out, *keys, *form, env=_interrupting(tmp_path, "av"))
    assert (ended.exit_code, ended.out, ended.err) == (130, "", "veilcam: interrupted\n")
    assert not out.exists()
