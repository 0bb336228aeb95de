"""The work of a case on a Ray cluster; extra ``ray``.

What travels to a node is the job: paths, options, where the keys are. No key and no passphrase does. So every
node needs the case's folder, the recordings, the ledger and the identity files under the same paths (storage
they share, with locks that work), veilcam, and ``VEILCAM_PASSPHRASE`` in the environment it was started in.

Whoever may submit work to a cluster may run anything on it. So this refuses to connect without Ray's token
authentication (``RAY_AUTH_MODE=token``), and a node that was started without it refuses to work. The token
keeps strangers out and encrypts nothing: between machines switch Ray's TLS on, or use a network of its own.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

from base.errors import KeyUnavailable, MissingDependency, PeerError, UsageError, VeilError
from forensics.case_engine import Report, do_job, failed
from forensics.case_files import CaseFolder
from forensics.case_job import FAILURE, KEY, CaseJob, ItemResult
from forensics.case_keys import KeyNames
from forensics.ledger import Ledger
from keys.source import KeySource

_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"  # names
_DEFAULT_TOKEN_FILE = Path(".ray") / "auth_token"
_WAIT_S = 1.0
_CONNECT_S = 60

_opened: dict[str, KeySource | None] = {}
"""On a node: the keys that this worker process has opened already."""


def check_token(environment: dict[str, str] | None = None) -> None:
    """Make sure that Ray will ask for a token, and that there is one.

    Raises:
        UsageError: authentication is off, or there is no token.
    """
    values = dict(os.environ) if environment is None else environment
    if values.get(_MODE) != "token":
        message = f"--engine ray: refused without authentication; set {_MODE}=token on every node and here"
        raise UsageError(message)
    named = values.get(_TOKEN_PATH)
    path = Path(named) if named else Path(values.get("HOME", "/")) / _DEFAULT_TOKEN_FILE
    if not values.get(_TOKEN) and not path.is_file():
        message = f"--engine ray: no token; set {_TOKEN} or {_TOKEN_PATH}"
        raise UsageError(message)


class RayCluster:
    """An engine (`forensics.case_engine.Engine`) whose jobs run where Ray puts them, one per processor."""

    name = "ray"

    def __init__(
        self, names: KeyNames | None, ledger: Path, num_jobs: int, address: str | None = None
    ) -> None:
        """Connect to a running cluster.

        Args:
            names: where the nodes find the keys.
            ledger: path of the ledger, the same on every node.
            num_jobs: recordings at a time.
            address: ``host:port`` of the head; None: RAY_ADDRESS.

        Raises:
            UsageError: no token authentication, or no address.
            MissingDependency: the extra is not installed.
            PeerError: the cluster does not answer, or refuses the token.
        """
        check_token()
        self._ray = _library()
        self._names, self._ledger, self.num_jobs = names, ledger, num_jobs
        where = address or os.environ.get("RAY_ADDRESS")
        if not where:
            message = "--engine ray: needs --ray-address HOST:PORT, or RAY_ADDRESS"
            raise UsageError(message)
        try:
            self._ray.init(address=where, log_to_driver=False, configure_logging=False, logging_level="ERROR")
        except Exception as error:  # Ray raises what its transports raise, a class for every cause
            message = f"ray at {where}: not reached, or the token was refused ({type(error).__name__})"
            raise PeerError(message) from error

    def run(
        self, folder: CaseFolder, jobs: Sequence[CaseJob], stage: str, report: Report
    ) -> list[ItemResult]:
        """See `Engine`. A job whose node is lost is given to another one, once."""
        mark = secrets.token_hex(8)
        folder.save_state("mark", {"mark": mark})
        remote = self._ray.remote(num_cpus=1, max_retries=1)(work)
        names = None if self._names is None else asdict(self._names)
        place = {"folder": str(folder.path.absolute()), "ledger": str(self._ledger), "mark": mark}
        waiting = list(range(len(jobs)))[::-1]
        running: dict[Any, int] = {}
        results: dict[int, ItemResult] = {}
        while waiting or running:
            while waiting and len(running) < self.num_jobs:
                number = waiting.pop()
                running[remote.remote(place, asdict(jobs[number]), stage, names)] = number
            ready, _ = self._ray.wait(list(running), num_returns=1, timeout=_WAIT_S)
            for reference in ready:
                number = running.pop(reference)
                results[number] = self._take(reference, jobs[number])
                report(number, 1.0)
        return [results[number] for number in range(len(jobs))]

    def _take(self, reference: object, job: CaseJob) -> ItemResult:
        try:
            return ItemResult.of_json(self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            return failed(job, f"the node that worked on it failed ({type(error).__name__})")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ray.shutdown()


def work(
    place: dict[str, str], job_values: dict[str, Any], stage: str, names: dict[str, Any] | None
) -> dict[str, Any]:
    """Do one job; runs on a node."""
    job = CaseJob(**job_values)
    folder = CaseFolder(Path(place["folder"]))
    if os.environ.get(_MODE) != "token":
        return failed(job, f"this node was started without {_MODE}=token").as_json()
    if (folder.state("mark") or {}).get("mark") != place["mark"]:
        return failed(job, f"this node does not see the case's folder {folder.path}").as_json()
    ledger = Ledger(Path(place["ledger"]))
    try:
        keys = _keys(names, ledger) if stage == "process" else None
    except KeyUnavailable as error:
        return ItemResult(job.stem, KEY, error=f"on the node: {error}").as_json()
    except (VeilError, OSError) as error:
        return ItemResult(job.stem, FAILURE, error=f"on the node: {error}").as_json()
    return do_job(folder, job, stage, keys=keys, ledger=ledger, advance=lambda _: None).as_json()


def _keys(names: dict[str, Any] | None, ledger: Ledger) -> KeySource | None:
    if names is None:
        return None
    named = KeyNames.of_json(names)
    if repr(named) not in _opened:
        _opened[repr(named)] = named.open(os.environ.get("VEILCAM_PASSPHRASE"), ledger)
    return _opened[repr(named)]


def _library() -> ModuleType:
    try:
        import ray  # noqa: PLC0415  # an extra
    except ImportError as error:
        message = "--engine ray needs the extra `ray`: pip install 'veilcam[ray]'"
        raise MissingDependency(message) from error
    module: ModuleType = ray
    return module
