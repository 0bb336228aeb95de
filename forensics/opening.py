"""The ledger's side of one opening: what is written before, after, and when it fails."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from base.errors import UsageError, VeilError
from forensics.canonical import JsonObject, JsonValue
from forensics.ledger import Ledger, LedgerEntry
from forensics.report import TOOL, FileDigest, json_time

MAX_TEXT = 2000
_MAX_IDS = 16
_MAX_RANGES = 400


@dataclass(frozen=True, slots=True)
class Purpose:
    """Why something is opened, as the person who opens it states it; at most 2000 characters each."""

    reason: str = ""
    case: str = ""

    def __post_init__(self) -> None:
        for name, text in (("reason", self.reason), ("case", self.case)):
            if len(text) > MAX_TEXT:
                message = f"{name}: {len(text)} characters, limit is {MAX_TEXT}"
                raise UsageError(message)


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be opened, and why."""

    input: FileDigest
    output_name: str
    camera_ids: Sequence[str]
    identity_ids: Sequence[str]
    asked_us: tuple[int | None, int | None]
    segments: str
    purpose: Purpose

    def as_json(self) -> JsonObject:
        """Return the body of the ledger entry."""
        return {
            "who": operator(),
            "tool": TOOL,
            "input": self.input.as_json(),
            "output": self.output_name,
            "cameras": list(self.camera_ids[:_MAX_IDS]),
            "identities": list(self.identity_ids[:_MAX_IDS]),
            "from": json_time(self.asked_us[0]),
            "to": json_time(self.asked_us[1]),
            "segments": self.segments,
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
    """One opening in the ledger. Its start is on the disk once this exists.

    Exactly one of `finish` and `fail` is called afterwards; an opening without either was cut
    short (`forensics.audit` lists those).
    """

    def __init__(self, ledger: Ledger, request: Request) -> None:
        self._ledger = ledger
        self.start = _append(ledger, "open", request.as_json())

    def finish(self, result: str, facts: JsonObject) -> LedgerEntry:
        """Record the outcome; the output may get its name after this, and must not if it raises.

        Raises:
            VeilError: the entry cannot be written.
        """
        return _append(self._ledger, "end", {"opening": self.start.seq, "result": result, **facts})

    def fail(self, error: BaseException) -> None:
        """Record that the opening ended with ``error`` and nothing came out."""
        facts: JsonObject = {"opening": self.start.seq, "result": "failed", "error": type(error).__name__}
        _append(self._ledger, "end", facts)


def record_refusal(ledger: Ledger, request: Request, why: str) -> LedgerEntry:
    """Record an attempt that found no key.

    Raises:
        VeilError: the entry cannot be written.
    """
    return _append(ledger, "refused", {**request.as_json(), "result": why})


def _append(ledger: Ledger, kind: str, body: dict[str, JsonValue]) -> LedgerEntry:
    try:
        return ledger.append(kind, body)
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
