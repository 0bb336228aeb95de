"""Checking a ledger: does every entry chain to the one before, is each signed, is nothing gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from base.errors import AuthenticationFailed, FormatError, UsageError
from forensics.canonical import JsonObject
from forensics.checkpoint import Checkpoint, VerifierKey, origin_of
from forensics.ledger_entry import FIRST_PREVIOUS, MAX_ENTRY_BYTES, EventKind, LedgerEntry, follows
from forensics.ledger_file import LedgerFile
from forensics.ledger_key import load_or_make
from forensics.merkle import EMPTY_ROOT, TreeHasher, leaf_hash

MAX_CLOCK_STEP_US = 5_000_000
"""How far time may run back from one entry to the next before it is a problem: networks set clocks."""
_MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """What a check of the whole ledger found.

    Attributes:
        head_hash: hash of the last good entry.
        root: RFC 6962 root over all lines, hexadecimal.
        key: verifier key of the ledger; None if it is empty.
        torn_bytes: what a power cut left behind the last line; that is no break of the chain, and the next
            writer repairs it.
        unfinished: openings without an end: cut short, or still going on.
        clock_steps: entries that are older than the one before them.
        num_checkpoints: checkpoints kept elsewhere that the ledger agrees with.
    """

    num_entries: int = 0
    head_hash: str = FIRST_PREVIOUS
    root: str = EMPTY_ROOT.hex()
    key: VerifierKey | None = None
    torn_bytes: int = 0
    num_repairs: int = 0
    unfinished: tuple[int, ...] = ()
    clock_steps: tuple[int, ...] = ()
    num_checkpoints: int = 0
    problems: tuple[str, ...] = field(default=())

    @property
    def is_intact(self) -> bool:
        """True when the chain and all signatures hold from the first entry to the last."""
        return not self.problems

    def as_json(self) -> JsonObject:
        """Return the report as a JSON document."""
        return {
            "intact": self.is_intact,
            "entries": self.num_entries,
            "head": self.head_hash,
            "root": self.root,
            "key": None if self.key is None else str(self.key),
            "torn_bytes": self.torn_bytes,
            "repairs": self.num_repairs,
            "unfinished_openings": list(self.unfinished),
            "clock_steps": list(self.clock_steps),
            "checkpoints": self.num_checkpoints,
            "problems": list(self.problems),
        }


def verify_ledger(
    path: Path, *, key: VerifierKey | None = None, checkpoints: Sequence[Checkpoint] = ()
) -> LedgerReport:
    """Check every line of the ledger at ``path``; memory does not grow with its size.

    Args:
        path: the ledger.
        key: which ledger and whose signature to expect; without it the ledger names its own key, and one
            that was written anew as a whole passes.
        checkpoints: kept elsewhere; the ledger must still begin with what each covers.

    Raises:
        FileNotFoundError: there is no ledger.
        UsageError: it is not a regular file.
    """
    with LedgerFile(path, writable=False) as file:
        audit = _Audit(key, checkpoints)
        for line, is_torn in file.lines(MAX_ENTRY_BYTES):
            if is_torn:
                audit.torn_bytes = len(line)
            else:
                audit.take(line)
        return audit.report()


def make_checkpoint(path: Path) -> tuple[Checkpoint, VerifierKey, list[bytes]]:
    """Return a checkpoint of all entries, the ledger's verifier key, and the leaf hashes.

    Raises:
        AuthenticationFailed: the ledger does not verify.
        UsageError: it is empty.
        KeyUnavailable: its key is missing.
        FileNotFoundError: there is no ledger.
    """
    with LedgerFile(path, writable=False) as file:
        audit = _Audit(None, ())
        leaves: list[bytes] = []
        for line, is_torn in file.lines(MAX_ENTRY_BYTES):
            if not is_torn:
                audit.take(line)
                leaves.append(leaf_hash(line))
        report = audit.report()
        if report.problems:
            message = f"ledger: it does not verify ({report.problems[0]}); nothing is signed"
            raise AuthenticationFailed(message)
        if report.key is None:
            message = "ledger: it is empty"
            raise UsageError(message)
        key = load_or_make(path, is_new=False)
        if key.public.public_key != report.key.public_key:
            message = "ledger: its entries are signed by another key than the one beside it"
            raise AuthenticationFailed(message)
    root = bytes.fromhex(report.root)
    return Checkpoint.sign(report.key.origin, len(leaves), root, key), report.key, leaves


class _Audit:
    """Takes the lines in order."""

    def __init__(self, key: VerifierKey | None, checkpoints: Sequence[Checkpoint]) -> None:
        self.torn_bytes = 0
        self._expected = key
        self._checkpoints = sorted(checkpoints, key=lambda each: each.size)
        self._num_checkpoints = 0
        self._tree = TreeHasher()
        self._key: VerifierKey | None = None
        self._last: LedgerEntry | None = None
        self._num_repairs = 0
        self._open: set[int] = set()
        self._clock_steps: list[int] = []
        self._problems: list[str] = []

    def take(self, line: bytes) -> None:
        self._tree.add(leaf_hash(line))
        try:
            entry = LedgerEntry.parse(line)
            entry.verify()
        except (FormatError, AuthenticationFailed) as error:
            self._problem(str(error))
        else:
            self._take_entry(entry)
        self._compare()

    def _take_entry(self, entry: LedgerEntry) -> None:
        if not follows(entry, self._last):
            self._problem(f"entry {entry.seq} does not follow the one before it")
        if self._key is None:
            self._key = VerifierKey(origin_of(entry.hash), entry.key)
            if self._expected is not None and self._expected != self._key:
                self._problem("the ledger is not the expected one, or another key signs it")
        elif entry.key != self._key.public_key:
            self._problem(f"entry {entry.seq} is signed by another key than the first")
        self._check_clock(entry)
        self._last = entry
        self._num_repairs += entry.kind == EventKind.REPAIR.value
        if entry.kind == EventKind.OPEN.value:
            self._open.add(entry.seq)
        elif isinstance(opening := entry.body.get("opening"), int):
            self._open.discard(opening)

    def _check_clock(self, entry: LedgerEntry) -> None:
        step_us = self._last.time_us - entry.time_us if self._last else 0
        if step_us > 0 and len(self._clock_steps) < _MAX_PROBLEMS:
            self._clock_steps.append(entry.seq)
        if step_us > MAX_CLOCK_STEP_US:
            self._problem(f"entry {entry.seq}: time ran back by {step_us / 1e6:.3f} s")

    def _compare(self) -> None:
        while self._checkpoints and self._checkpoints[0].size <= self._tree.size:
            checkpoint = self._checkpoints.pop(0)
            if self._key is None or checkpoint.size < self._tree.size:
                self._problem(
                    "a checkpoint that cannot be compared: it covers nothing, or no entry before is good"
                )
                continue
            try:
                checkpoint.verify(self._key)
            except AuthenticationFailed as error:
                self._problem(str(error))
                continue
            if checkpoint.root == self._tree.root():
                self._num_checkpoints += 1
            else:
                self._problem(f"the first {checkpoint.size} entries are not those of the checkpoint")

    def _problem(self, text: str) -> None:
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(f"line {self._tree.size}: {text}")

    def report(self) -> LedgerReport:
        for checkpoint in self._checkpoints:
            self._problem(
                f"the ledger ends here; the checkpoint covers {checkpoint.size} entries: the end was cut off"
            )
        if self._expected is not None and self._key is None:
            self._problem("the ledger is empty")
        return LedgerReport(
            num_entries=self._tree.size,
            head_hash=self._last.hash if self._last else FIRST_PREVIOUS,
            root=self._tree.root().hex(),
            key=self._key,
            torn_bytes=self.torn_bytes,
            num_repairs=self._num_repairs,
            unfinished=tuple(sorted(self._open))[:_MAX_PROBLEMS],
            clock_steps=tuple(self._clock_steps),
            num_checkpoints=self._num_checkpoints,
            problems=tuple(self._problems),
        )
