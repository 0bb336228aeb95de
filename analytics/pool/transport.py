"""The seam between the pool and the protocols that workers speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from analytics.oip.messages import ModelMetadata
from analytics.pool.answer import Answer
from analytics.pool.tiles import CutTile
from base.errors import PeerError


class Overloaded(PeerError):  # noqa: N818  # named like those of base.errors
    """The worker is there and says that it cannot do this in time: its queue is full, or it is stopping."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a worker says it serves.

    Attributes:
        model: the detector's own name there.
        names: its classes in the order of their ids.
    """

    model: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One tile on its way.

    Attributes:
        cut: the picture.
        jpeg_quality: for workers that take JPEG.
        timeout_s: how long the answer is of use.
        camera: who asks, for sharing a worker fairly.
        min_score: weaker boxes need not be sent back.
        is_look: nobody waits for it: tiles of the next frame may find the worker still at it.
    """

    cut: CutTile
    jpeg_quality: int
    timeout_s: float
    camera: str
    min_score: float
    is_look: bool = False


class Transport(Protocol):
    """One worker's connection. Used from one event loop; a cancelled call leaves it usable."""

    async def is_ready(self) -> bool:
        """It answers and takes work.

        Raises:
            PeerError: it cannot be reached.
        """

    async def describe(self) -> Served:
        """What it serves; ``infer`` needs it first.

        Raises:
            PeerError: it cannot be reached, or does not have the model.
            FormatError: an answer that the protocol does not allow, or a model that cannot be used.
        """

    def body_bytes(self, request: Request) -> int:
        """What ``infer`` will send, without protocol headers."""

    async def infer(self, request: Request) -> Answer:
        """Ask about one tile.

        Raises:
            Overloaded: not now.
            PeerError: it cannot be reached, or failed.
            FormatError: an answer that cannot be true.
        """

    async def close(self) -> None:
        """End the connection; raises nothing."""


def model_name(metadata: ModelMetadata) -> str:
    """What runs there, for people: at most 64 printable characters."""
    told = metadata.parameters.get("detector")
    name = told if isinstance(told, str) and told else metadata.name
    return name[:64] if name.isprintable() else "?"
