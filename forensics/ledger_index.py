"""A SQLite index over the ledger, for searching. The log alone counts: the index is made from it, at will.

It knows where each line is and a few of its fields. It follows the log by itself: new lines are added, and if
the log is not the one that was indexed (another line where the last one was), all is indexed anew. What it
finds is read from the log again, and checked there.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from base.canonical import JsonValue
from base.errors import AuthenticationFailed, FormatError, PeerError, UsageError
from forensics.ledger_entry import MAX_ENTRY_BYTES, LedgerEntry
from forensics.ledger_file import LedgerFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
    line INTEGER PRIMARY KEY, offset INTEGER NOT NULL, bytes INTEGER NOT NULL, sha256 BLOB NOT NULL,
    seq INTEGER, time_us INTEGER, kind TEXT, case_id TEXT, grant_id TEXT, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS entry_time ON entry (time_us);
CREATE INDEX IF NOT EXISTS entry_case ON entry (case_id);
CREATE INDEX IF NOT EXISTS entry_grant ON entry (grant_id);
PRAGMA user_version = 1;
"""
_VERSION = 1
_TIMEOUT_S = 10.0
_BATCH = 5000
MAX_FOUND = 100_000


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for; what is None or empty does not matter. Times are Unix microseconds, half-open."""

    since_us: int | None = None
    until_us: int | None = None
    kinds: Sequence[str] = ()
    case: str | None = None
    grant: str | None = None
    camera: str | None = None
    words: Sequence[str] = ()
    limit: int = 1000

    def _clauses(self) -> Iterator[tuple[str, tuple[JsonValue, ...]]]:
        if self.since_us is not None:
            yield "time_us >= ?", (self.since_us,)
        if self.until_us is not None:
            yield "time_us < ?", (self.until_us,)
        if self.kinds:
            yield f"kind IN ({','.join('?' * len(self.kinds))})", tuple(self.kinds)
        if self.case is not None:
            yield "case_id = ?", (self.case,)
        if self.grant is not None:
            yield "grant_id = ?", (self.grant,)
        for word in (*self.words, *((self.camera,) if self.camera else ())):
            yield "instr(text, ?)", (word.casefold(),)

    def sql(self) -> tuple[str, tuple[JsonValue, ...]]:
        """Return a SELECT and its values. Only placeholders are put together, never what was asked for.

        Raises:
            UsageError: the limit is out of bounds.
        """
        if not 1 <= self.limit <= MAX_FOUND:
            message = f"limit: expected 1 to {MAX_FOUND}, got {self.limit}"
            raise UsageError(message)
        clauses = list(self._clauses())
        where = " AND ".join(clause for clause, _ in clauses) or "1"
        values = tuple(value for _, part in clauses for value in part)
        select = f"SELECT offset, bytes FROM entry WHERE {where} ORDER BY line DESC LIMIT ?"  # noqa: S608
        return select, (*values, self.limit)


def index_path(ledger: Path) -> Path:
    """Return where the index of a ledger is."""
    return ledger.with_name(ledger.name + ".index")


class LedgerIndex:
    """The index of one ledger, brought up to date when opened. Use as a context manager."""

    def __init__(self, ledger: Path) -> None:
        """Take the ledger; it must exist.

        Args:
            ledger: path of the log.
        """
        self._ledger = ledger

    def __enter__(self) -> Self:
        self._file = LedgerFile(self._ledger, writable=False).__enter__()
        try:
            self._connection = self._connect()
            self._update()
        except BaseException as error:
            self._file.__exit__(None, None, None)
            if isinstance(error, sqlite3.Error):
                message = f"{index_path(self._ledger).name}: {error}"
                raise PeerError(message) from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._file.__exit__(kind, error, trace)

    def find(self, query: Query) -> list[LedgerEntry]:
        """Return matching entries, the newest first; each is read from the log and verified.

        Raises:
            AuthenticationFailed: a line of the log does not verify.
            UsageError: the limit is out of bounds.
        """
        select, values = query.sql()
        rows = self._connection.execute(select, values).fetchall()
        return [_checked(self._file.read_at(offset, num_bytes)) for offset, num_bytes in rows]

    def entry(self, seq: int) -> LedgerEntry:
        """Return an entry by its number, read from the log and verified.

        Raises:
            UsageError: there is none.
            AuthenticationFailed: it does not verify.
        """
        found = self._connection.execute("SELECT offset, bytes FROM entry WHERE seq = ?", (seq,)).fetchone()
        if found is None:
            message = f"entry {seq}: there is none"
            raise UsageError(message)
        return _checked(self._file.read_at(found[0], found[1]))

    def line(self, seq: int) -> bytes:
        """Return the line of an entry as it stands in the log; raises as `entry`."""
        return bytes(self.entry(seq))

    def _connect(self) -> sqlite3.Connection:
        path = index_path(self._ledger)
        try:
            with contextlib.suppress(FileExistsError):
                path.touch(mode=0o600, exist_ok=False)
        except PermissionError:  # an auditor who may read and not write: index for this one search
            return _opened(Path(":memory:"))
        try:
            return _opened(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, or the disk: not the file's fault
                raise
            path.unlink()  # not a database, or damaged: nothing in it counts
            path.touch(mode=0o600)
            return _opened(path)

    def _update(self) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            offset, line = self._resume()
            rows: list[tuple[JsonValue | bytes, ...]] = []
            for text, is_torn in self._file.lines(MAX_ENTRY_BYTES, start=offset):
                if is_torn:
                    break
                rows.append(_row(line, offset, text))
                offset, line = offset + len(text) + 1, line + 1
                if len(rows) >= _BATCH:
                    self._insert(rows)
                    rows = []
            self._insert(rows)

    def _resume(self) -> tuple[int, int]:
        """Return where to go on: behind the last indexed line, or at the start if the log is another one."""
        last = self._connection.execute(
            "SELECT line, offset, bytes, sha256 FROM entry ORDER BY line DESC LIMIT 1"
        ).fetchone()
        if last is None:
            return 0, 0
        line, offset, num_bytes, digest = last
        there = self._file.read_at(offset, num_bytes + 1)
        if there.endswith(b"\n") and hashlib.sha256(there[:-1]).digest() == digest:
            return offset + num_bytes + 1, line + 1
        self._connection.execute("DELETE FROM entry")
        return 0, 0

    def _insert(self, rows: Sequence[tuple[JsonValue | bytes, ...]]) -> None:
        self._connection.executemany("INSERT INTO entry VALUES (?,?,?,?,?,?,?,?,?,?)", rows)


def rebuild(ledger: Path) -> int:
    """Throw the index away and make it again; returns the number of lines.

    Raises:
        FileNotFoundError: there is no ledger.
    """
    if not ledger.exists():
        message = f"no ledger: {ledger}"
        raise FileNotFoundError(2, message)
    index_path(ledger).unlink(missing_ok=True)
    with LedgerIndex(ledger) as index:
        return int(index._connection.execute("SELECT count(*) FROM entry").fetchone()[0])


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_TIMEOUT_S, isolation_level=None)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != _VERSION:
            connection.executescript("DROP TABLE IF EXISTS entry;" + _SCHEMA)
        connection.execute("SELECT line, offset, bytes, sha256, seq, text FROM entry LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _row(line: int, offset: int, text: bytes) -> tuple[JsonValue | bytes, ...]:
    """One row; a line that is no entry is kept as text, so that its place is known."""
    digest = hashlib.sha256(text).digest()
    words = text.decode("utf-8", "replace").casefold()
    try:
        entry = LedgerEntry.parse(text)
    except FormatError:
        return (line, offset, len(text), digest, None, None, None, None, None, words)
    case, grant = entry.body.get("case"), entry.body.get("grant")
    return (
        line,
        offset,
        len(text),
        digest,
        entry.seq,
        entry.time_us,
        entry.kind,
        case if isinstance(case, str) else None,
        grant if isinstance(grant, str) else None,
        words,
    )


def _checked(line: bytes) -> LedgerEntry:
    try:
        entry = LedgerEntry.parse(line)
    except FormatError as error:
        message = "ledger: a line that was found does not verify; run veilcam audit verify"
        raise AuthenticationFailed(message) from error
    entry.verify()
    return entry
