"""What came back from pixels: an approximation, picture by picture."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from forensics.canonical import JsonObject
from forensics.opening import Purpose
from forensics.report import REPORT_VERSION, TOOL, FileDigest, json_time
from forensics.restored import NOTE


class PixelOutcome(Enum):
    """What became of one picture of the recording."""

    RESTORED = "pixels"  # restored from the picture itself; in the output
    SEALED = "sealed"  # the exact original of its segment was delivered beside it
    UNREADABLE = "none"  # no key at hand fits, or nothing is hidden in it


@dataclass(frozen=True, slots=True)
class PixelFrame:
    """One picture.

    Attributes:
        time_us: Unix microseconds, from the segment's header and the container's times.
        outcome: which path it came back by.
        segment: number of the header that fitted; None if none did.
        coherence: how surely, in whole standard deviations above what a wrong key gives.
    """

    time_us: int
    outcome: PixelOutcome
    segment: int | None
    coherence: float

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "time": json_time(self.time_us),
            "path": self.outcome.value,
            "segment": self.segment,
            "coherence": round(self.coherence),
        }


@dataclass(frozen=True, slots=True)
class PixelReport:
    """Everything about one restoring; never evidence."""

    input: FileDigest
    output: FileDigest | None
    frames: tuple[PixelFrame, ...]
    model: str
    recipient_ids: tuple[str, ...]
    purpose: Purpose
    ledger_seq: int
    ledger_hash: str

    def count(self, outcome: PixelOutcome) -> int:
        """Pictures with this outcome."""
        return Counter(frame.outcome for frame in self.frames)[outcome]

    @property
    def exit_code(self) -> int:
        """0 if every picture came back one way or the other, else 3."""
        return 0 if self.frames and not self.count(PixelOutcome.UNREADABLE) else 3

    def as_json(self) -> JsonObject:
        """Return the report as a JSON document."""
        return {
            "report": "restore",
            "v": REPORT_VERSION,
            "tool": TOOL,
            "evidence": False,
            "note": NOTE,
            "exit_code": self.exit_code,
            "input": self.input.as_json(),
            "output": None if self.output is None else self.output.as_json(),
            "networks": self.model,
            "pictures": {outcome.value: self.count(outcome) for outcome in PixelOutcome},
            "frames": [frame.as_json() for frame in self.frames],
            "recipients_used": list(self.recipient_ids),
            "reason": self.purpose.reason,
            "case": self.purpose.case,
            "ledger": {"seq": self.ledger_seq, "hash": self.ledger_hash},
        }

    def text(self) -> str:
        """Return a summary for people, several lines."""
        restored, sealed = self.count(PixelOutcome.RESTORED), self.count(PixelOutcome.SEALED)
        lines = [f"RESTORED  {self.input.name}: {restored} of {len(self.frames)} pictures, not evidence"]
        if self.output is not None:
            lines.append(f"output {self.output.name}, {self.output.num_bytes} bytes")
        if sealed:
            lines.append(f"  {sealed} more came back exactly, from the sealed layer")
        if missing := self.count(PixelOutcome.UNREADABLE):
            lines.append(f"  {missing} could not be read: no key at hand fits, or nothing is hidden in them")
        lines.append(f"  networks  {self.model}")
        lines.append(f"  ledger    entry {self.ledger_seq}")
        return "\n".join(lines)
