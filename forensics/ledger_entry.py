"""One line of the ledger: what it says, its hash, its signature. Pure."""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from base.canonical import JsonObject, JsonValue, canonical_json, parse_canonical
from base.errors import AuthenticationFailed, LimitExceeded, Malformed, UnknownVersion
from keys.ed25519 import PUBLIC_BYTES, SIGNATURE_BYTES
from keys.labels import Label
from keys.signer import SignerKey, SignerPublic

LEDGER_VERSION = 1
MAX_ENTRY_BYTES = 65_536
FIRST_PREVIOUS = "0" * 64
_FIELDS = frozenset({"v", "seq", "time", "kind", "prev", "body", "hash", "key", "sig"})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_KIND = re.compile(r"[a-z][a-z-]{0,31}")
_HASH = re.compile(r"[0-9a-f]{64}")
_UNIX = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_T = TypeVar("_T", int, str, dict[str, JsonValue])


class EventKind(enum.Enum):
    """What an entry tells. Readers keep entries of kinds that they do not know."""

    OPEN = "open"  # something is about to be opened: decode, lift, view, export (body: action)
    END = "end"  # how that ended
    REFUSED = "refused"  # it was tried, and there was no key
    REPAIR = "repair"  # a power cut had left part of a line
    GRANT_REQUESTED = "grant-requested"
    GRANT_APPROVED = "grant-approved"
    GRANT_ISSUING = "grant-issuing"  # before a key is unwrapped for a grant
    GRANT_ISSUED = "grant-issued"
    GRANT_REVOKED = "grant-revoked"
    KEY_USED = "key-used"  # a private key outside an opening: shares joined, identity exported or changed
    EPOCH_DESTROYED = "epoch-destroyed"
    EXPORT = "export"  # something opened before leaves the house


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One entry. ``key`` is the public Ed25519 key of the ledger, ``sig`` its signature over the hash."""

    seq: int
    time: str
    kind: str
    prev: str
    body: Mapping[str, JsonValue]
    key: bytes = field(repr=False)
    sig: bytes = field(default=b"", repr=False)

    @classmethod
    def signed(
        cls, *, seq: int, time: str, kind: str, prev: str, body: Mapping[str, JsonValue], key: SignerKey
    ) -> LedgerEntry:
        """Make an entry with its signature.

        Raises:
            UsageError: the body is outside canonical JSON.
        """
        entry = cls(seq, time, kind, prev, body, key.public.public_key)
        return cls(seq, time, kind, prev, body, entry.key, key.sign(Label.LEDGER_ENTRY, entry._digest()))

    def unsigned(self) -> JsonObject:
        """Return the part that the hash covers."""
        return {
            "v": LEDGER_VERSION,
            "seq": self.seq,
            "time": self.time,
            "kind": self.kind,
            "prev": self.prev,
            "body": self.body,
            "key": self.key.hex(),
        }

    def _digest(self) -> bytes:
        return hashlib.sha256(canonical_json(self.unsigned())).digest()

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical entry without hash and signature, in hexadecimal."""
        return self._digest().hex()

    @property
    def time_us(self) -> int:
        """When it was written, Unix microseconds."""
        return (dt.datetime.fromisoformat(self.time) - _UNIX) // dt.timedelta(microseconds=1)

    def verify(self) -> None:
        """Return if the entry is signed by the key that it names. Whose key that is, the caller knows.

        Raises:
            AuthenticationFailed: it is not.
        """
        try:
            SignerPublic("ledger", self.key).verify(Label.LEDGER_ENTRY, self.sig, self._digest())
        except AuthenticationFailed:
            message = f"ledger: the signature of entry {self.seq} does not verify"
            raise AuthenticationFailed(message) from None

    def __bytes__(self) -> bytes:
        return canonical_json({**self.unsigned(), "hash": self.hash, "sig": self.sig.hex()})

    @classmethod
    def parse(cls, line: bytes) -> LedgerEntry:
        """Read one line (without its newline) and check its hash; `verify` checks the signature.

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
        if value.keys() != _FIELDS:
            message = "ledger: entry with missing or unknown fields"
            raise Malformed(message)
        entry = cls(
            seq=_field(value, "seq", int),
            time=_time(_field(value, "time", str)),
            kind=_matching(value, "kind", _KIND),
            prev=_matching(value, "prev", _HASH),
            body=_field(value, "body", dict),
            key=_octets(value, "key", PUBLIC_BYTES),
            sig=_octets(value, "sig", SIGNATURE_BYTES),
        )
        if entry.seq < 0 or entry.hash != value["hash"]:
            message = f"ledger: entry {entry.seq} does not have the hash it states"
            raise Malformed(message)
        return entry


def follows(entry: LedgerEntry, last: LedgerEntry | None) -> bool:
    """Say whether ``entry`` is the one right after ``last`` in the chain."""
    if last is None:
        return entry.seq == 0 and entry.prev == FIRST_PREVIOUS
    return entry.seq == last.seq + 1 and entry.prev == last.hash


def _field(value: JsonObject, name: str, kind: type[_T]) -> _T:
    item = value.get(name)
    if not isinstance(item, kind) or isinstance(item, bool):
        message = f"ledger: entry field {name!r} is missing or of the wrong type"
        raise Malformed(message)
    return item


def _matching(value: JsonObject, name: str, pattern: re.Pattern[str]) -> str:
    text = _field(value, name, str)
    if pattern.fullmatch(text) is None:
        message = f"ledger: entry field {name!r} has a form that is not allowed"
        raise Malformed(message)
    return text


def _octets(value: JsonObject, name: str, num_bytes: int) -> bytes:
    text = _matching(value, name, re.compile(rf"[0-9a-f]{{{2 * num_bytes}}}"))
    return bytes.fromhex(text)


def _time(text: str) -> str:
    try:
        if _TIME.fullmatch(text):
            dt.datetime.fromisoformat(text)
            return text
    except ValueError:
        pass
    message = "ledger: entry field 'time' is no time of the calendar"
    raise Malformed(message)
