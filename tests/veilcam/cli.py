"""Runs ``veilcam`` as a program, the way a user meets it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from veilcam.cli.run import main

ROOT = Path(__file__).resolve().parents[2]
_LEDGER = Path(tempfile.mkdtemp(prefix="veilcam-tests-")) / "ledger.jsonl"  # never the user's own
PASSPHRASE = "correct horse battery staple"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)


def environment(**extra: str) -> dict[str, str]:
    """Ours, with the passphrase, without anything that could change the outcome."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VEILCAM_")}
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ours = {"PYTHONPATH": search, "VEILCAM_PASSPHRASE": PASSPHRASE, "VEILCAM_LEDGER": str(_LEDGER)}
    return {**kept, **ours, **extra}


def command(*arguments: str | Path) -> list[str]:
    """The argument vector of ``veilcam`` with ``arguments``."""
    return [sys.executable, "-m", "veilcam", *map(str, arguments)]


def veilcam(
    *arguments: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, timeout_s: float = 120
) -> Ended:
    """Run one command to its end, without standard input."""
    done = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment() if env is None else env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def veilcam_inside(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Ended:
    """Run one command in this process: the same entry point, without the seconds that a start costs."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment() if env is None else env, clear=True),
        contextlib.chdir(cwd),
        mock.patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        exit_code = main([str(argument) for argument in arguments])
    return Ended(exit_code, out.getvalue(), err.getvalue())
