"""What both forms of the Open Inference Protocol can do for a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from analytics.oip.messages import InferRequest, InferResponse, Limits, ModelMetadata
from base.errors import FormatError, Malformed

HEAD_LIMITS = Limits(body_bytes=32 << 20, json_bytes=1 << 20, tensors=16, parameters=64, text_chars=16384)
"""Of answers that are a network's raw head."""
BOX_LIMITS = replace(HEAD_LIMITS, body_bytes=1 << 20)
"""Of answers that are at most 1000 boxes: as many may come at once as tiles were sent."""


@contextmanager
def reading() -> Iterator[None]:
    """Around a parser: its messages quote what they complain about, and a worker's words go into no log.

    Raises:
        Malformed: for every FormatError, which is its cause.
    """
    try:
        yield
    except FormatError as error:
        message = f"answer: not what the protocol says ({type(error).__name__})"
        raise Malformed(message) from error


class Channel(Protocol):
    """A connection to one server. A cancelled call leaves it usable."""

    async def is_ready(self) -> bool:
        """The server takes work.

        Raises:
            PeerError: it cannot be reached.
        """

    async def metadata(self, model: str) -> ModelMetadata:
        """What the server says about a model.

        Raises:
            PeerError: it cannot be reached, or does not have the model.
            FormatError: not what the protocol says.
        """

    async def infer(self, request: InferRequest) -> InferResponse:
        """The answer, as sent.

        Raises:
            Overloaded: not now.
            PeerError: it cannot be reached, or failed.
            FormatError: not what the protocol says.
        """

    async def close(self) -> None:
        """End the connection; raises nothing."""
