"""Work that a worker does not do, and what the caller is told."""

from __future__ import annotations

from enum import Enum

from base.errors import VeilError


class Why(Enum):
    """Why work is refused: a word for programs, HTTP's status, and gRPC's."""

    BUSY = ("busy", 503, "RESOURCE_EXHAUSTED")
    LATE = ("late", 503, "DEADLINE_EXCEEDED")
    DRAINING = ("draining", 503, "UNAVAILABLE")
    NOT_READY = ("not-ready", 503, "UNAVAILABLE")
    UNKNOWN = ("unknown-model", 404, "NOT_FOUND")
    INVALID = ("invalid", 400, "INVALID_ARGUMENT")
    TOO_LARGE = ("too-large", 413, "RESOURCE_EXHAUSTED")
    BROKEN = ("failed", 500, "INTERNAL")

    def __init__(self, code: str, http_status: int, grpc_status: str) -> None:
        self.code = code
        self.http_status = http_status
        self.grpc_status = grpc_status


class Refused(VeilError):  # noqa: N818  # an answer, not a fault
    """A request that gets an error instead of a result.

    Attributes:
        why: the kind.
        retry_after_s: when to try again, if that may help; None if not.
    """

    def __init__(self, why: Why, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.why = why
        self.retry_after_s = retry_after_s
