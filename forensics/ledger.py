"""The ledger: an append-only file that remembers every opening.

One entry a line, canonical JSON (`forensics.canonical`):

    {"body":{...},"hash":"<hex>","kind":"open","prev":"<hex>","seq":0,"time":"2026-...Z","v":1}

`hash` is SHA-256 over the canonical entry without `hash` (and without `sig`, a name kept
free for a signature per entry); `prev` is the hash of the entry before, zeros for the
first. Changing, removing or reordering entries breaks the chain from there on. The chain
alone cannot show that entries were cut off its *end*: keep the head hash elsewhere
(`verify_ledger` reports it).

Durability: an entry counts once its line *and* its newline are on the disk. A power cut
can leave a part of a line; the next writer cuts it off and records that it did (`repair`).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from base.errors import AuthenticationFailed, FormatError, LimitExceeded, Malformed, UnknownVersion
from forensics.canonical import JsonObject, JsonValue, canonical_json, parse_canonical
from forensics.ledger_file import LedgerFile
from forensics.selection import iso_time

LEDGER_VERSION = 1
MAX_ENTRY_BYTES = 65_536
FIRST_PREVIOUS = "0" * 64
_FIELDS = frozenset({"v", "seq", "time", "kind", "prev", "body", "hash"})

_T = TypeVar("_T", int, str, dict[str, JsonValue])

Clock = Callable[[], int]
"""Returns the time in Unix microseconds."""


def system_clock() -> int:
    """Return the system's time in Unix microseconds."""
    return time.time_ns() // 1000


def default_ledger_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return VEILCAM_LEDGER, else ``veilcam/ledger.jsonl`` in the XDG state folder."""
    values = os.environ if environment is None else environment
    if chosen := values.get("VEILCAM_LEDGER"):
        return Path(chosen)
    state = Path(values.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # the XDG specification: a relative path is to be ignored
        state = Path.home() / ".local" / "state"
    return state / "veilcam" / "ledger.jsonl"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line of the ledger."""

    seq: int
    time: str
    kind: str
    prev: str
    body: Mapping[str, JsonValue]

    def unsigned(self) -> JsonObject:
        """Return the part that the hash covers."""
        return {
            "v": LEDGER_VERSION,
            "seq": self.seq,
            "time": self.time,
            "kind": self.kind,
            "prev": self.prev,
            "body": self.body,
        }

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical entry, in hexadecimal."""
        return hashlib.sha256(canonical_json(self.unsigned())).hexdigest()

    def __bytes__(self) -> bytes:
        return canonical_json({**self.unsigned(), "hash": self.hash})

    @classmethod
    def parse(cls, line: bytes) -> LedgerEntry:
        """Read one line (without its newline) and check its hash.

        Raises:
            FormatError: not an entry, of another version, or its hash does not fit.
        """
        if len(line) > MAX_ENTRY_BYTES:
            message = f"ledger: entry of {len(line)} bytes, limit is {MAX_ENTRY_BYTES}"
            raise LimitExceeded(message)
        value = parse_canonical(line)
        if not isinstance(value, dict):
            message = "ledger: an entry must be an object"
            raise Malformed(message)
        if value.get("v") != LEDGER_VERSION:
            message = f"ledger: entry version {value.get('v')!r:.40}, expected {LEDGER_VERSION}"
            raise UnknownVersion(message)
        if value.keys() - {"sig"} != _FIELDS:
            message = "ledger: entry with missing or unknown fields"
            raise Malformed(message)
        entry = cls(
            seq=_field(value, "seq", int),
            time=_field(value, "time", str),
            kind=_field(value, "kind", str),
            prev=_field(value, "prev", str),
            body=_field(value, "body", dict),
        )
        if entry.hash != value["hash"]:
            message = f"ledger: entry {entry.seq} does not have the hash it states"
            raise Malformed(message)
        return entry


def _field(value: JsonObject, name: str, kind: type[_T]) -> _T:
    item = value.get(name)
    if not isinstance(item, kind) or isinstance(item, bool):
        message = f"ledger: entry field {name!r} is missing or of the wrong type"
        raise Malformed(message)
    return item


class Ledger:
    """Appends entries; safe for many writers, in threads and in processes.

    `append` returns only after the entry is on the disk, so what it announces may then
    happen; if it raises, it must not.
    """

    def __init__(self, path: Path, *, clock: Clock = system_clock) -> None:
        self.path = path
        self._clock = clock

    def now_us(self) -> int:
        """Return the ledger's time, Unix microseconds."""
        return self._clock()

    def append(self, kind: str, body: Mapping[str, JsonValue]) -> LedgerEntry:
        """Chain an entry to the end, on the disk before this returns.

        Raises:
            AuthenticationFailed: the last entry does not verify; nothing was written.
            LimitExceeded: the entry is larger than 64 KiB.
            PeerError: another process holds the lock and does not let go.
            OSError: the file cannot be written; what was written of the entry was cut off again.
        """
        with LedgerFile(self.path, writable=True) as file:
            last = self._repair_tail(file)
            return self._write(file, last, kind, body)

    def _repair_tail(self, file: LedgerFile) -> LedgerEntry | None:
        """Return the last entry after dealing with what a power cut may have left behind it."""
        line, torn = file.read_tail(MAX_ENTRY_BYTES)
        last = _parse_last(line)
        if not torn:
            return last
        if _is_complete(torn, last):  # only the newline was lost: the entry stands
            file.append(b"\n")
            return LedgerEntry.parse(torn)
        removed = file.cut_torn()
        note: JsonObject = {"removed_bytes": removed.num_bytes, "removed_sha256": removed.sha256}
        return self._write(file, last, "repair", note)

    def _write(
        self, file: LedgerFile, last: LedgerEntry | None, kind: str, body: Mapping[str, JsonValue]
    ) -> LedgerEntry:
        entry = LedgerEntry(
            seq=last.seq + 1 if last else 0,
            time=iso_time(self._clock()),
            kind=kind,
            prev=last.hash if last else FIRST_PREVIOUS,
            body=body,
        )
        line = bytes(entry)
        if len(line) > MAX_ENTRY_BYTES:
            message = f"ledger: entry of {len(line)} bytes, limit is {MAX_ENTRY_BYTES}"
            raise LimitExceeded(message)
        file.append(line + b"\n")
        return entry


def _parse_last(line: bytes) -> LedgerEntry | None:
    if not line:
        return None
    try:
        return LedgerEntry.parse(line)
    except FormatError as error:
        message = "ledger: the last entry does not verify; move the file away before going on"
        raise AuthenticationFailed(message) from error


def _is_complete(torn: bytes, last: LedgerEntry | None) -> bool:
    try:
        entry = LedgerEntry.parse(torn)
    except FormatError:
        return False
    return follows(entry, last)


def follows(entry: LedgerEntry, last: LedgerEntry | None) -> bool:
    """Say whether ``entry`` is the one right after ``last`` in the chain."""
    if last is None:
        return entry.seq == 0 and entry.prev == FIRST_PREVIOUS
    return entry.seq == last.seq + 1 and entry.prev == last.hash
