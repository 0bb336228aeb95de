"""The ledger's side of one opening: what is written before, after, and when it fails."""

from __future__ import annotations

import enum
import logging
import os
import pwd
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from base.documents import is_plain_text
from base.errors import GrantRefused, KeyUnavailable, UsageError, VeilError
from forensics.canonical import JsonObject, JsonValue
from forensics.ledger import EventKind, Guard, Ledger, LedgerEntry, Past
from forensics.report import TOOL, FileDigest, json_time
from keys import RegionKeys, SegmentKeys
from keys.source import KeySource, SegmentRef

_LOG = logging.getLogger(__name__)
MAX_TEXT = 2000
_MAX_IDS = 16
_MAX_RANGES = 400
_CLOCK_STEP_US = 5_000_000


@dataclass(frozen=True, slots=True)
class Purpose:
    """Why something is opened, as the person who opens it states it.

    At most 2000 characters each, without control characters or marks that turn the direction of reading: the
    texts are shown on terminals and in reports, and must read there as they read to whoever typed them.
    """

    reason: str = ""
    case: str = ""

    def __post_init__(self) -> None:
        for name, text in (("reason", self.reason), ("case", self.case)):
            if len(text) > MAX_TEXT:
                message = f"{name}: {len(text)} characters, limit is {MAX_TEXT}"
                raise UsageError(message)
            if not is_plain_text(text):
                message = f"{name}: expected text without control characters, in UTF-8"
                raise UsageError(message)


class Action(enum.Enum):
    """What an opening is for."""

    DECODE = "decode"  # the original into a file
    LIFT = "lift"  # the original of a live stream, shown for a while
    VIEW = "view"  # shown to a person, kept nowhere
    EXPORT = "export"  # into a bundle for others


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be opened, and why. ``input`` is None for a live stream, which has no digest."""

    input: FileDigest | None
    output_name: str
    camera_ids: Sequence[str]
    identity_ids: Sequence[str]
    asked_us: tuple[int | None, int | None]
    segments: str
    purpose: Purpose
    action: Action = Action.DECODE
    grant_id: str | None = None
    regions: Sequence[str] = ()  # boxes and tracks; empty: all that the keys open

    def as_json(self) -> JsonObject:
        """Return the body of the ledger entry."""
        return {
            "action": self.action.value,
            "who": operator(),
            "tool": TOOL,
            "input": None if self.input is None else self.input.as_json(),
            "output": self.output_name,
            "cameras": list(self.camera_ids[:_MAX_IDS]),
            "identities": list(self.identity_ids[:_MAX_IDS]),
            "grant": self.grant_id,
            "from": json_time(self.asked_us[0]),
            "to": json_time(self.asked_us[1]),
            "segments": self.segments,
            "regions": list(self.regions),
            "reason": self.purpose.reason,
            "case": self.purpose.case,
        }


def operator() -> JsonObject:
    """Return who runs this process: the kernel's user id, its name, and the host's name."""
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = ""
    return {"uid": uid, "user": user, "host": socket.gethostname()}


class Opening:
    """One opening in the ledger, and the only way to keys: its start is on the disk once this exists.

    It is a `KeySource` itself while it lasts, so what opens segments takes the opening in place of the
    source. Made by `open_recorded` alone.
    """

    def __init__(self, ledger: Ledger, start: LedgerEntry, source: KeySource) -> None:
        self._ledger = ledger
        self._source = source
        self._is_over = False
        self.start = start

    @property
    def key_ids(self) -> tuple[str, ...]:
        """As the source's."""
        return self._source.key_ids

    @property
    def used_ids(self) -> tuple[str, ...]:
        """As the source's."""
        return self._source.used_ids

    @property
    def grant_id(self) -> str | None:
        """As the source's."""
        return self._source.grant_id

    def covers(self, segment: SegmentRef) -> bool:
        """As the source's."""
        return self._source.covers(segment)

    def authorize(self, now_us: int, num_used: int) -> None:
        """As the source's."""
        self._source.authorize(now_us, num_used)

    def segment_keys(self, segment: SegmentRef) -> SegmentKeys | RegionKeys:
        """Return the keys of one segment; raises as `KeySource.segment_keys`.

        Raises:
            UsageError: the opening is over.
        """
        if self._is_over:
            message = "opening: it is over; begin another one"
            raise UsageError(message)
        return self._source.segment_keys(segment)

    def finish(self, result: str, facts: JsonObject) -> LedgerEntry:
        """Record the outcome; the output may get its name after this, and must not if it raises.

        Raises:
            VeilError: the entry cannot be written.
        """
        self._is_over = True
        return _append(self._ledger, EventKind.END, {"opening": self.start.seq, "result": result, **facts})

    def fail(self, error: BaseException) -> None:
        """Record that the opening ended with ``error`` and nothing came out."""
        self._is_over = True
        facts: JsonObject = {"opening": self.start.seq, "result": "failed", "error": type(error).__name__}
        _append(self._ledger, EventKind.END, facts)


@contextmanager
def open_recorded(ledger: Ledger, request: Request, source: KeySource) -> Iterator[Opening]:
    """Begin an opening: the ledger learns of it first, and without an entry there are no keys.

    Call `Opening.finish` inside; if the block raises, the failure is recorded.

    Raises:
        GrantRefused: the grant is over, used up or revoked; the attempt is in the ledger.
        VeilError: the entry cannot be written; nothing is opened.
    """
    try:
        start = _append(ledger, EventKind.OPEN, request.as_json(), guard=_guard(source))
    except GrantRefused as error:
        record_refusal(ledger, request, str(error))
        raise
    opening = Opening(ledger, start, source)
    try:
        yield opening
    except BaseException as error:
        try:
            opening.fail(error)
        except VeilError:  # the ledger keeps the start without an end, which tells the same
            _LOG.warning("the ledger could not record that the opening failed")
        raise


def refuse(ledger: Ledger, request: Request, error: KeyUnavailable) -> KeyUnavailable:
    """Record an attempt that has no key to begin with, and return ``error`` to raise.

    Raises:
        VeilError: the entry cannot be written.
    """
    record_refusal(ledger, request, str(error))
    return error


def record_refusal(ledger: Ledger, request: Request, why: str) -> LedgerEntry:
    """Record an attempt that found no key.

    Raises:
        VeilError: the entry cannot be written.
    """
    return _append(ledger, EventKind.REFUSED, {**request.as_json(), "result": why})


def record_event(ledger: Ledger, kind: EventKind, facts: JsonObject) -> LedgerEntry:
    """Record something that is no opening: a grant, the use of a key, the end of an epoch.

    Raises:
        VeilError: the entry cannot be written; what it announces must not happen.
    """
    return _append(ledger, kind, {"who": operator(), "tool": TOOL, **facts})


def _guard(source: KeySource) -> Guard | None:
    """Return what keeps a grant within its uses, its time, and its revocation; an identity needs nothing.

    Every opening counts, also one that failed: whoever stops it could have kept what came out.
    """
    grant_id = source.grant_id
    if grant_id is None:
        return None

    def check(past: Past) -> None:
        num_used = 0
        for entry in past.entries_with(grant_id):
            if entry.body.get("grant") != grant_id:
                continue
            if entry.kind == EventKind.GRANT_REVOKED.value:
                message = f"grant {grant_id}: it was revoked (entry {entry.seq} of the ledger)"
                raise GrantRefused(message)
            num_used += entry.kind == EventKind.OPEN.value
        try:
            source.authorize(past.now_us, num_used)
        except GrantRefused as error:
            if past.now_us - past.clock_us <= _CLOCK_STEP_US:
                raise
            shown, newest = json_time(past.clock_us), json_time(past.now_us)
            message = f"{error} (the clock shows {shown}, but the ledger has an entry of {newest})"
            raise GrantRefused(message) from error

    return check


def _append(
    ledger: Ledger, kind: EventKind, body: dict[str, JsonValue], *, guard: Guard | None = None
) -> LedgerEntry:
    try:
        return ledger.append(kind, body, guard=guard)
    except OSError as error:
        message = f"ledger {ledger.path}: cannot be written ({error.strerror}); nothing is opened"
        raise VeilError(message) from error


def ranges_text(numbers: Iterable[int]) -> str:
    """Write rising numbers as ``0-41,43``; a list that is too long ends in an ellipsis."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in ranges[:_MAX_RANGES]]
    return ",".join(parts) + (",..." if len(ranges) > _MAX_RANGES else "")
