"""How one camera uses the pool."""

from __future__ import annotations

from dataclasses import dataclass, field

from analytics.elf.types import Policy
from base.errors import UsageError


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Time, quality and policy of one camera's detection.

    Attributes:
        deadline_s: from sending a frame's tiles; what is not answered then is answered here or missing.
        jpeg_quality: of the tiles, 1 to 100.
        min_score: weaker detections are left out.
        camera: its name, by which workers share themselves fairly.
        policy: what workers may see, and how tiles are cut.
        audit_every: one frame in so many has a tile checked by a second worker; 0: never.

    Raises:
        UsageError: a value out of range.
    """

    deadline_s: float = 0.5
    jpeg_quality: int = 85
    min_score: float = 0.3
    camera: str = "camera"
    policy: Policy = field(default_factory=Policy)
    audit_every: int = 50

    def __post_init__(self) -> None:
        if not 0.01 <= self.deadline_s <= 60:
            message = f"deadline: expected 0.01 to 60 s, got {self.deadline_s}"
            raise UsageError(message)
        if not 1 <= self.jpeg_quality <= 100:
            message = f"jpeg_quality: expected 1 to 100, got {self.jpeg_quality}"
            raise UsageError(message)
        if self.audit_every < 0:
            message = f"audit_every: expected 0 or more frames, got {self.audit_every}"
            raise UsageError(message)
        if not 0 <= self.min_score <= 1:
            message = f"min_score: expected 0 to 1, got {self.min_score}"
            raise UsageError(message)
