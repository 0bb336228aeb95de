"""Checking a ledger: does every entry chain to the one before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from base.errors import FormatError
from forensics.canonical import JsonObject
from forensics.ledger import FIRST_PREVIOUS, MAX_ENTRY_BYTES, LedgerEntry, follows
from forensics.ledger_file import LedgerFile

_MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """What a check of the whole ledger found.

    `head_hash` is the hash of the last good entry: a copy of it kept elsewhere shows later
    whether entries were cut off the end. `torn_bytes` is what a power cut left behind the
    last line; that is no break of the chain, and the next writer repairs it.
    """

    num_entries: int = 0
    head_hash: str = FIRST_PREVIOUS
    torn_bytes: int = 0
    num_repairs: int = 0
    unfinished: tuple[int, ...] = ()
    problems: tuple[str, ...] = field(default=())

    @property
    def is_intact(self) -> bool:
        """True when the chain holds from the first entry to the last."""
        return not self.problems

    def as_json(self) -> JsonObject:
        """Return the report as a JSON document."""
        return {
            "intact": self.is_intact,
            "entries": self.num_entries,
            "head": self.head_hash,
            "torn_bytes": self.torn_bytes,
            "repairs": self.num_repairs,
            "unfinished_openings": list(self.unfinished),
            "problems": list(self.problems),
        }


def verify_ledger(path: Path) -> LedgerReport:
    """Check every line of the ledger at ``path``; memory does not grow with its size.

    Raises:
        FileNotFoundError: there is no ledger.
        UsageError: it is not a regular file.
    """
    with LedgerFile(path, writable=False) as file:
        audit = _Audit()
        for line, is_torn in _lines(file):
            if is_torn:
                audit.torn_bytes = len(line)
            else:
                audit.take(line)
        return audit.report()


class _Audit:
    def __init__(self) -> None:
        self.torn_bytes = 0
        self._last: LedgerEntry | None = None
        self._num_entries = 0
        self._num_repairs = 0
        self._open: set[int] = set()
        self._problems: list[str] = []

    def take(self, line: bytes) -> None:
        self._num_entries += 1
        try:
            entry = LedgerEntry.parse(line)
        except FormatError as error:
            self._problem(str(error))
            return
        if not follows(entry, self._last):
            self._problem(f"entry {entry.seq} does not follow the one before it")
        self._last = entry
        self._num_repairs += entry.kind == "repair"
        if entry.kind == "open":
            self._open.add(entry.seq)
        elif isinstance(opening := entry.body.get("opening"), int):
            self._open.discard(opening)

    def _problem(self, text: str) -> None:
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(f"line {self._num_entries}: {text}")

    def report(self) -> LedgerReport:
        return LedgerReport(
            num_entries=self._num_entries,
            head_hash=self._last.hash if self._last else FIRST_PREVIOUS,
            torn_bytes=self.torn_bytes,
            num_repairs=self._num_repairs,
            unfinished=tuple(sorted(self._open))[:_MAX_PROBLEMS],
            problems=tuple(self._problems),
        )


def _lines(file: LedgerFile) -> Iterator[tuple[bytes, bool]]:
    """Yield every line without its newline, and True with the last if it has none.

    A line beyond the limit comes out in pieces, none of which is a valid entry.
    """
    rest = b""
    offset = 0
    while block := file.read_at(offset, MAX_ENTRY_BYTES):
        offset += len(block)
        *complete, rest = (rest + block).split(b"\n")
        for line in complete:
            yield line, False
        if len(rest) > MAX_ENTRY_BYTES:
            yield rest, False
            rest = b""
    if rest:
        yield rest, True
