"""Runs the product's own commands as a user would, and reads their JSON."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import VeilError

Say = Callable[[str], None]
_TIMEOUT_S = 600
_HOME = Path(__file__).resolve().parents[2]


class DemoError(VeilError):
    """A step of the demonstration ended otherwise than it must."""


@dataclass(frozen=True, slots=True)
class Done:
    """A finished command: exit status, its JSON document, what it said on standard error."""

    exit_code: int
    document: dict[str, Any]
    errors: str


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs ``veilcam`` in ``folder``; ``passphrase`` reaches it through the environment only."""

    folder: Path
    passphrase: str
    say: Say

    def environment(self) -> Mapping[str, str]:
        """The child's environment; openings go to a ledger of the demonstration's own."""
        search = os.pathsep.join(filter(None, (str(_HOME), os.environ.get("PYTHONPATH"))))
        ledger = str(self.folder / "ledger.jsonl")
        ours = {"PYTHONPATH": search, "VEILCAM_PASSPHRASE": self.passphrase, "VEILCAM_LEDGER": ledger}
        return {**os.environ, **ours}

    def argv(self, *arguments: str) -> list[str]:
        """The full command line of ``veilcam`` with ``arguments`` and ``--json``."""
        # -P: the folder it runs in has a folder `keys`, which must not stand in for the package of that name.
        return [sys.executable, "-P", "-m", "veilcam", *arguments, "--json"]

    def run(self, *arguments: str, expect: Sequence[int] = (0,), show_progress: bool = False) -> Done:
        """Run one command to its end.

        With ``show_progress`` its standard error goes to ours, so that a progress bar is seen.

        Raises:
            DemoError: the exit status is not among ``expect``, or it ran too long.
        """
        self.say(f"  $ veilcam {shlex.join(arguments)}")
        errors = None if show_progress and sys.stderr.isatty() else subprocess.PIPE
        try:
            done = subprocess.run(  # noqa: S603  # our own interpreter and module
                self.argv(*arguments),
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"veilcam {arguments[0]}: no end after {_TIMEOUT_S} s") from error
        said = (done.stderr or "").strip()
        if done.returncode not in expect:
            wanted = " or ".join(map(str, expect))
            raise DemoError(
                f"veilcam {shlex.join(arguments)}: exit status {done.returncode}, expected {wanted}\n{said}"
            )
        return Done(done.returncode, _document(done.stdout, arguments), said)


def _document(text: str, arguments: Sequence[str]) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise DemoError(f"veilcam {arguments[0]} --json: printed no JSON document") from error
    if not isinstance(document, dict):
        raise DemoError(f"veilcam {arguments[0]} --json: expected an object")
    return document
