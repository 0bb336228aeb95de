"""One fuzzed parser, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from base.errors import AuthenticationFailed, FormatError, KeyUnavailable

_OURS = (FormatError, KeyUnavailable, AuthenticationFailed)


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """One parser.

    Attributes:
        area: stream, header, grant, share, ledger, config, keys or worker.
        run: raises nothing but ``allowed``.
        samples: valid inputs to start from.
        max_bytes: inputs are no longer than this.
    """

    area: str
    run: Callable[[bytes], object]
    samples: tuple[bytes, ...]
    allowed: tuple[type[Exception], ...] = _OURS
    max_bytes: int = 4096

    def execute(self, data: bytes) -> str:
        """Run one input; the kind of outcome."""
        try:
            self.run(data)
        except self.allowed as error:
            return type(error).__name__
        return "accepted"
