"""The ledger: an append-only file that remembers every opening.

One entry a line, canonical JSON (`base.canonical`):

    {"body":{...},"hash":"<hex>","key":"<hex>","kind":"open","prev":"<hex>","seq":0,"sig":"<hex>","time":"...Z","v":1}

`hash` is SHA-256 over the canonical entry without `hash` and `sig`; `prev` is the hash of the entry before,
zeros for the first; `sig` is the ledger's Ed25519 signature over the hash (`forensics.ledger_key`). Changing,
removing or reordering entries breaks the chain from there on, and nobody without the key can mend it. The
chain alone cannot show that entries were cut off its *end*: keep checkpoints elsewhere (`forensics.audit`).

Durability: an entry counts once its line *and* its newline are on the disk. A power cut can leave a part of a
line; the next writer cuts it off and records that it did (`repair`).
"""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from base.errors import AuthenticationFailed, FormatError, KeyUnavailable, LimitExceeded, UsageError
from forensics.canonical import JsonObject, JsonValue
from forensics.ledger_entry import (
    FIRST_PREVIOUS,
    LEDGER_VERSION,
    MAX_ENTRY_BYTES,
    EventKind,
    LedgerEntry,
    follows,
)
from forensics.ledger_file import LedgerFile
from forensics.ledger_key import load_or_make
from forensics.selection import iso_time
from keys.signer import SignerKey

__all__ = [
    "FIRST_PREVIOUS",
    "LEDGER_VERSION",
    "MAX_ENTRY_BYTES",
    "EventKind",
    "Guard",
    "Ledger",
    "LedgerEntry",
    "Past",
    "default_ledger_path",
    "follows",
    "system_clock",
]

Clock = Callable[[], int]
"""Returns the time in Unix microseconds."""

_TIME_AT_END = re.compile(rb'"time":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)","v":\d+\}$')
_TAIL_BYTES = 64
_UNIX = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAX_TIME_US = 253_402_300_799_999_999  # the end of the year 9999


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
class Past:
    """What a guard may ask before an entry is written, while nobody else can write.

    Attributes:
        clock_us: what the clock shows, Unix microseconds.
        now_us: the time to go by: never before that of any entry, so that a clock set back gives no expired
            grant a second life. Not of the last entry alone: the attempt that is refused is an entry too, and
            bears the time of the clock that was set back.
    """

    clock_us: int
    now_us: int
    _file: LedgerFile

    def entries_with(self, text: str) -> Iterator[LedgerEntry]:
        """Yield the entries whose line contains ``text``, in order. Reads the whole file.

        Raises:
            AuthenticationFailed: such a line does not verify.
        """
        needle = text.encode("utf-8")
        for line, is_torn in self._file.lines(MAX_ENTRY_BYTES):
            if needle in line and not is_torn:
                yield _parsed(line)


Guard = Callable[[Past], None]
"""Raises what must keep an entry, and what it announces, from happening."""


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

    def newest_us(self) -> int:
        """Return the latest time that any entry bears; 0 without a ledger.

        Raises:
            OSError: it cannot be read.
        """
        if not self.path.exists():
            return 0
        with LedgerFile(self.path, writable=False) as file:
            return _newest_us(file)

    def append(
        self, kind: str | EventKind, body: Mapping[str, JsonValue], *, guard: Guard | None = None
    ) -> LedgerEntry:
        """Chain an entry to the end, on the disk before this returns.

        Args:
            kind: what it tells.
            body: canonical JSON.
            guard: called with the ledger locked; if it raises, nothing is written.

        Raises:
            AuthenticationFailed: the last entry does not verify; nothing was written.
            KeyUnavailable: another key signed the last entry, or ours is missing or open to others.
            LimitExceeded: the entry is larger than 64 KiB.
            UsageError: the clock shows a time of no calendar.
            PeerError: another process holds the lock and does not let go.
            OSError: the file cannot be written; what was written of the entry was cut off again.
        """
        name = kind.value if isinstance(kind, EventKind) else kind
        with LedgerFile(self.path, writable=True) as file:
            line, torn = file.read_tail(MAX_ENTRY_BYTES)
            last = _parsed(line) if line else None
            key = load_or_make(self.path, is_new=file.num_bytes == 0)
            last = self._repair_tail(file, _signed_by(key, last), torn, key)
            if guard is not None:
                clock_us = self._clock()
                guard(Past(clock_us, max(clock_us, _newest_us(file)), file))
            return self._write(file, last, name, body, key)

    def _repair_tail(
        self, file: LedgerFile, last: LedgerEntry | None, torn: bytes, key: SignerKey
    ) -> LedgerEntry | None:
        """Return the last entry after dealing with what a power cut may have left behind it."""
        if not torn:
            return last
        if _is_complete(torn, last, key):  # only the newline was lost: the entry stands
            file.append(b"\n")
            return LedgerEntry.parse(torn)
        removed = file.cut_torn()
        note: JsonObject = {"removed_bytes": removed.num_bytes, "removed_sha256": removed.sha256}
        return self._write(file, last, EventKind.REPAIR.value, note, key)

    def _write(
        self,
        file: LedgerFile,
        last: LedgerEntry | None,
        kind: str,
        body: Mapping[str, JsonValue],
        key: SignerKey,
    ) -> LedgerEntry:
        now_us = self._clock()
        if not 0 <= now_us <= _MAX_TIME_US:
            message = f"ledger: the clock shows {now_us} us, which is no time of the calendar"
            raise UsageError(message)
        entry = LedgerEntry.signed(
            seq=last.seq + 1 if last else 0,
            time=iso_time(now_us),
            kind=kind,
            prev=last.hash if last else FIRST_PREVIOUS,
            body=body,
            key=key,
        )
        line = bytes(entry)
        if len(line) > MAX_ENTRY_BYTES:
            message = f"ledger: entry of {len(line)} bytes, limit is {MAX_ENTRY_BYTES}"
            raise LimitExceeded(message)
        LedgerEntry.parse(line)  # what is not read back must not be written: the next writer would refuse it
        file.append(line + b"\n")
        return entry


def _newest_us(file: LedgerFile) -> int:
    """The latest time that any line states, read from its end: parsing a million entries takes a minute."""
    newest = b""
    for line, _ in file.lines(MAX_ENTRY_BYTES):
        found = _TIME_AT_END.search(line, max(0, len(line) - _TAIL_BYTES))
        if found is not None and found[1] > newest:  # ISO times of one form sort like what they mean
            newest = found[1]
    if not newest:
        return 0
    try:
        return (dt.datetime.fromisoformat(newest.decode("ascii")) - _UNIX) // dt.timedelta(microseconds=1)
    except ValueError as error:
        message = "ledger: an entry bears a time that there is not; run veilcam audit verify"
        raise AuthenticationFailed(message) from error


def _signed_by(key: SignerKey, entry: LedgerEntry | None) -> LedgerEntry | None:
    if entry is None:
        return None
    if entry.key != key.public.public_key:
        message = "ledger: another key signed the last entry; move the file away before going on"
        raise KeyUnavailable(message)
    entry.verify()
    return entry


def _parsed(line: bytes) -> LedgerEntry:
    try:
        return LedgerEntry.parse(line)
    except FormatError as error:
        message = (
            "ledger: an entry does not verify; run veilcam audit verify, and move the file away to go on"
        )
        raise AuthenticationFailed(message) from error


def _is_complete(torn: bytes, last: LedgerEntry | None, key: SignerKey) -> bool:
    try:
        entry = LedgerEntry.parse(torn)
        entry.verify()
    except (FormatError, AuthenticationFailed):
        return False
    return entry.key == key.public.public_key and follows(entry, last)
