"""What an opening did: output, hashes, verdict, and segment by segment what could not be opened and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from forensics.canonical import JsonObject, JsonValue
from forensics.opening import Purpose
from forensics.plan import Proof
from forensics.region_report import RegionReport
from forensics.report import (
    REPORT_VERSION,
    TOOL,
    FileDigest,
    VerificationReport,
    evidence_json,
    evidence_text,
    json_time,
)
from forensics.selection import iso_time
from forensics.verdict import Verdict

_INTEGRITY_EXIT = 3
_MAX_TEXT_ROWS = 12


class Outcome(Enum):
    """What became of one segment that was asked for."""

    DELIVERED = "delivered"  # all of it is in the output
    PARTLY = "partly delivered"
    WITHHELD = "withheld"  # the signature contradicts it
    NOT_OPENED = "not opened"


@dataclass(frozen=True, slots=True)
class OpenedRow:
    """One segment that was asked for. ``problems`` says what is not in the output, and why."""

    ordinal: int
    name: str
    outcome: Outcome
    proof: Proof
    num_packets: int = 0
    num_held_back: int = 0
    problems: tuple[str, ...] = ()

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "ordinal": self.ordinal,
            "name": self.name,
            "outcome": self.outcome.value,
            "proof": self.proof.value,
            "packets": self.num_packets,
            "held_back": self.num_held_back,
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True)
class TrackDigest:
    """One track of the output. SHA-256 over its packets' bytes in order, as the camera sealed them."""

    index: int
    kind: str
    codec: str
    num_packets: int
    num_bytes: int
    sha256: str

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "index": self.index,
            "kind": self.kind,
            "codec": self.codec,
            "packets": self.num_packets,
            "bytes": self.num_bytes,
            "sha256": self.sha256,
        }


@dataclass(frozen=True, slots=True)
class DecodeReport:
    """Everything about one opening.

    Attributes:
        verification: the verdict and evidence on the whole input, whatever range was asked for.
        output: None if there was nothing to write.
        asked_us: Unix microseconds; None leaves that side open.
        delivered_us: capture times of the first and last picture of the segments delivered.
        sealed_modes: how the original was coded (copy, av1, hevc, h264, ffv1).
        model_ids: of the protectors that drew the protected layer.
        recipient_ids: identities that opened something.
        notes: for people.
        regions: where the original is split: which of its regions the output shows, picture by picture.
        grant_id: of the grant that it was opened with, hexadecimal; None if an identity opened it.
        ledger_seq: the ledger entry that announced this opening, with its hash.
    """

    verification: VerificationReport
    output: FileDigest | None
    tracks: tuple[TrackDigest, ...]
    opened: tuple[OpenedRow, ...]
    asked_us: tuple[int | None, int | None]
    delivered_us: tuple[int, int] | None
    sealed_modes: tuple[str, ...]
    model_ids: tuple[str, ...]
    recipient_ids: tuple[str, ...]
    notes: tuple[str, ...]
    purpose: Purpose
    ledger_seq: int
    ledger_hash: str
    grant_id: str | None = None
    regions: RegionReport | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict on the input."""
        return self.verification.verdict

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for is in the output."""
        return self.output is not None and all(row.outcome is Outcome.DELIVERED for row in self.opened)

    @property
    def exit_code(self) -> int:
        """0 if all that was asked for came out and no check failed, else 3.

        Without the camera's key no check of its signatures fails: that alone does not count here,
        the verdict (UNVERIFIABLE) says it.
        """
        conclusion = self.verification.conclusion
        is_sound = conclusion.verdict is Verdict.AUTHENTIC or conclusion.lacks_only_key
        return 0 if self.is_complete and is_sound else _INTEGRITY_EXIT

    def as_json(self) -> JsonObject:
        """Return the report as a JSON document."""
        return {
            "report": "decode",
            "v": REPORT_VERSION,
            "tool": TOOL,
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "complete": self.is_complete,
            "output": None if self.output is None else self.output.as_json(),
            "tracks": [track.as_json() for track in self.tracks],
            "asked": {"from": json_time(self.asked_us[0]), "to": json_time(self.asked_us[1])},
            "delivered": _span_json(self.delivered_us),
            "sealed_modes": list(self.sealed_modes),
            "protector_models": list(self.model_ids),
            "recipients_used": list(self.recipient_ids),
            "notes": list(self.notes),
            "reason": self.purpose.reason,
            "case": self.purpose.case,
            "grant": self.grant_id,
            "ledger": {"seq": self.ledger_seq, "hash": self.ledger_hash},
            "opened": [row.as_json() for row in self.opened],
            "regions": None if self.regions is None else self.regions.as_json(),
            **evidence_json(self.verification),
        }

    def text(self) -> str:
        """Return a summary for people, several lines."""
        lines = [f"{self.verdict.name}  {self.verification.input.name}", *evidence_text(self.verification)]
        if self.output is None:
            lines.append("nothing could be opened; no output was written")
        else:
            lines.append(f"output {self.output.name}, {self.output.num_bytes} bytes")
            lines.append(f"  sha256    {self.output.sha256}")
        for track in self.tracks:
            is_tile = self.regions is not None and track.kind == "video"
            name = f"region {track.index}" if is_tile else track.kind
            lines.append(f"  {name:<10}{track.codec}, {track.num_packets} packets, sha256 {track.sha256}")
        if self.delivered_us is not None:
            lines.append(f"  range     {iso_time(self.delivered_us[0])} to {iso_time(self.delivered_us[1])}")
        lines.append(f"  sealed    {', '.join(self.sealed_modes) or '-'}")
        if self.regions is not None:
            lines.append(self.regions.text())
        lines += [f"  note      {note}" for note in self.notes]
        odd = [row for row in self.opened if row.outcome is not Outcome.DELIVERED]
        for row in odd[:_MAX_TEXT_ROWS]:
            lines.append(f"  {row.name}: {row.outcome.value}: {'; '.join(row.problems) or 'incomplete'}")
        if len(odd) > _MAX_TEXT_ROWS:
            lines.append(f"  and {len(odd) - _MAX_TEXT_ROWS} more segments; all are in the JSON report")
        if self.grant_id is not None:
            lines.append(f"  grant     {self.grant_id}")
        lines.append(f"  ledger    entry {self.ledger_seq}")
        return "\n".join(lines)


def _span_json(span_us: tuple[int, int] | None) -> JsonValue:
    return None if span_us is None else {"from": json_time(span_us[0]), "to": json_time(span_us[1])}
