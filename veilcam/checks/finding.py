"""The outcome of one check."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(enum.Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    """Absent or unusual, and veilcam works without it."""
    BROKEN = "broken"
    """Something that veilcam needs does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    group: str
    name: str
    status: Status
    detail: str

    def as_json(self) -> dict[str, str]:
        """The finding for ``--json``."""
        return {"group": self.group, "name": self.name, "status": self.status.value, "detail": self.detail}
