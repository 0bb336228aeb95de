"""Where the work of a case is done: in this process, or in several of this machine (a cluster: `case_ray`).

Engines only deal out jobs; what a job does is `forensics.case_item`. One job is done by one process. A
process that dies takes its job with it; the job is tried once more in a new one and then counts as failed.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from base.errors import VeilError
from forensics.case_files import CaseFolder, Step
from forensics.case_item import acquire_item, process_item
from forensics.case_job import FAILURE, CaseJob, ItemResult
from forensics.case_keys import KeyNames
from forensics.ledger import Ledger
from keys.identity_file import passphrase_bytes
from keys.passphrase import Passphrase
from keys.secret import RevealToken, SecretBytes
from keys.source import KeySource

Report = Callable[[int, float], None]
"""Called with the job's number and the share of it that is done, from any thread."""

_TRIES = 2
_MAX_LINE = 64 << 20


class Engine(Protocol):
    """Does the jobs of a case. Use as a context manager."""

    name: str
    num_jobs: int

    def run(
        self, folder: CaseFolder, jobs: Sequence[CaseJob], stage: str, report: Report
    ) -> list[ItemResult]:
        """Do one stage (``acquire`` or ``process``) of all jobs; results in the order of the jobs."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what it started."""


def do_job(
    folder: CaseFolder,
    job: CaseJob,
    stage: str,
    *,
    keys: KeySource | None,
    ledger: Ledger,
    advance: Callable[[float], None],
) -> ItemResult:
    """Do one job in this process; never raises what is about this recording alone."""
    if stage == "process":
        return process_item(folder, job, keys, ledger, advance)
    try:
        acquired = acquire_item(folder, job, advance)
    except (VeilError, OSError) as error:
        return failed(job, f"{error}")
    return ItemResult(job.stem, 0, steps=acquired.steps)


def failed(job: CaseJob, why: str) -> ItemResult:
    """The result of a job that came to nothing."""
    return ItemResult(
        job.stem, FAILURE, error=why, steps=(Step.now("failed", job.stem, None, why).as_json(),)
    )


class InProcess:
    """One job after the other, here."""

    name = "in-process"
    num_jobs = 1

    def close(self) -> None:
        """See `Engine`; there is nothing to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def __init__(self, names: KeyNames | None, passphrase: Passphrase, ledger: Path) -> None:
        self._ledger = Ledger(ledger)
        self._keys = None if names is None else names.open(passphrase, self._ledger)

    def run(
        self, folder: CaseFolder, jobs: Sequence[CaseJob], stage: str, report: Report
    ) -> list[ItemResult]:
        """See `Engine`."""
        results = []
        for number, job in enumerate(jobs):
            advance = _for(report, number)
            results.append(do_job(folder, job, stage, keys=self._keys, ledger=self._ledger, advance=advance))
            report(number, 1.0)
        return results


def _for(report: Report, number: int) -> Callable[[float], None]:
    return lambda share: report(number, share)


class Processes:
    """Child processes of this one. The passphrase reaches them through their standard input only.

    They live until `close`, and each opens the keys once, when the first recording is to be opened.
    """

    name = "processes"

    def __init__(self, names: KeyNames | None, passphrase: Passphrase, ledger: Path, num_jobs: int) -> None:
        self._names, self._ledger, self.num_jobs = names, ledger, num_jobs
        self._passphrase = None if names is None else _as_secret(passphrase)
        self._idle: list[subprocess.Popen[str]] = []

    def run(
        self, folder: CaseFolder, jobs: Sequence[CaseJob], stage: str, report: Report
    ) -> list[ItemResult]:
        """See `Engine`."""
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(jobs)):
            waiting.put(number)
        results: dict[int, ItemResult] = {}
        busy: list[subprocess.Popen[str]] = []
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                try:
                    number = waiting.get_nowait()
                except queue.Empty:
                    return
                results[number] = self._try(
                    folder, jobs[number], stage, advance=_for(report, number), busy=busy, stop=stop
                )
                report(number, 1.0)

        threads = [threading.Thread(target=work) for _ in range(min(self.num_jobs, len(jobs)))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            stop.set()
            for child in list(busy):
                child.terminate()  # it removes what it has begun, as at Ctrl-C
            for thread in threads:
                thread.join()
            raise
        return [results[number] for number in range(len(jobs))]

    def _try(
        self,
        folder: CaseFolder,
        job: CaseJob,
        stage: str,
        *,
        advance: Callable[[float], None],
        busy: list[subprocess.Popen[str]],
        stop: threading.Event,
    ) -> ItemResult:
        for _ in range(_TRIES):
            child = self._idle.pop() if self._idle else self._start(folder)
            busy.append(child)
            result = _ask(child, stage, job, advance)
            busy.remove(child)
            if result is not None:
                self._idle.append(child)
                return result
            _end(child)
            if stop.is_set():
                break
        return failed(job, "the process that worked on it died")

    def close(self) -> None:
        """End the children."""
        while self._idle:
            _end(self._idle.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, folder: CaseFolder) -> subprocess.Popen[str]:
        environment = {name: text for name, text in os.environ.items() if name != "VEILCAM_PASSPHRASE"}
        roots = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), environment.get("PYTHONPATH"))))
        child = subprocess.Popen(  # our own interpreter, fixed arguments
            [sys.executable, "-m", "forensics.case_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONPATH": roots},
        )
        secret = None
        if self._passphrase is not None:
            secret = self._passphrase.expose(RevealToken("passphrase to a child process")).hex()
        opening = {
            "folder": str(folder.path.absolute()),
            "ledger": str(self._ledger),
            "keys": None if self._names is None else asdict(self._names),
            "passphrase": secret,
        }
        _send(child.stdin, opening)
        return child


def _as_secret(passphrase: Passphrase) -> SecretBytes | None:
    if passphrase is None:
        return None
    return passphrase_bytes(passphrase("the identities") if callable(passphrase) else passphrase)


def _send(stream: IO[str] | None, document: object) -> None:
    if stream is not None:
        try:
            stream.write(json.dumps(document) + "\n")
            stream.flush()
        except (BrokenPipeError, ValueError):
            pass  # the child is gone; reading from it tells


def _ask(
    child: subprocess.Popen[str], stage: str, job: CaseJob, advance: Callable[[float], None]
) -> ItemResult | None:
    """Give a child one job and wait for its end; None if the child died."""
    _send(child.stdin, {"stage": stage, "job": asdict(job)})
    stream = child.stdout
    while stream is not None and (line := stream.readline(_MAX_LINE)):
        try:
            answer = json.loads(line)
        except ValueError:
            return None
        if "progress" in answer:
            advance(float(answer["progress"]))
        elif "failed" in answer:
            return ItemResult(job.stem, int(answer["exit_code"]), error=str(answer["failed"]))
        else:
            return ItemResult.of_json(answer["result"])
    return None


def _end(child: subprocess.Popen[str]) -> None:
    if child.stdin is not None:
        child.stdin.close()
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
