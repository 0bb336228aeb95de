"""A child process that does jobs of a case; `forensics.case_engine.Processes` starts and feeds it.

One JSON document a line. In: first the case (folder, ledger, key names, passphrase), then jobs and stages.
Out: ``{"progress": 0.5}`` any number of times, then ``{"result": {...}}``, for each job.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from base.errors import AuthenticationFailed, KeyUnavailable, VeilError
from forensics.case_engine import do_job
from forensics.case_files import CaseFolder
from forensics.case_job import FAILURE, INTEGRITY, KEY, CaseJob
from forensics.case_keys import KeyNames
from forensics.ledger import Ledger
from keys.secret import SecretBytes
from keys.source import KeySource

_EVERY_S = 0.2


def main(source: TextIO, out: TextIO) -> int:
    """Work until the input ends."""
    opening = json.loads(source.readline() or "null")
    if opening is None:
        return 0
    folder, ledger = CaseFolder(Path(opening["folder"])), Ledger(Path(opening["ledger"]))
    keys: KeySource | None = None
    for line in source:
        asked = json.loads(line)
        stage, job = asked["stage"], CaseJob(**asked["job"])
        if stage == "process" and opening is not None:
            try:
                keys = _keys(opening, ledger)
            except (VeilError, OSError) as error:
                _say(out, {"failed": str(error), "exit_code": _exit_code(error)})
                continue
            opening = None
        result = do_job(folder, job, stage, keys=keys, ledger=ledger, advance=_Progress(out))
        _say(out, {"result": result.as_json()})
    return 0


def _exit_code(error: Exception) -> int:
    if isinstance(error, KeyUnavailable):
        return KEY
    return INTEGRITY if isinstance(error, AuthenticationFailed) else FAILURE


def _keys(opening: dict[str, Any], ledger: Ledger) -> KeySource | None:
    names, secret = opening["keys"], opening["passphrase"]
    if names is None:
        return None
    passphrase = None if secret is None else SecretBytes(bytes.fromhex(secret))
    return KeyNames.of_json(names).open(passphrase, ledger)


class _Progress:
    """Says how far it is, five times a second."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next_s = 0.0

    def __call__(self, share: float) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _EVERY_S
            _say(self._out, {"progress": round(share, 4)})


def _say(out: TextIO, document: object) -> None:
    out.write(json.dumps(document) + "\n")
    out.flush()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing but answers on the pipe
    try:
        sys.exit(main(sys.stdin, answers))
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)
