"""What a source gives to the pipeline, and what every source has in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import av

from base.frames import ClearFrame
from camera.stats import SourceState

if TYPE_CHECKING:
    from codec.packets import SealedPacket, SealedStream


DEFAULT_RATE = Fraction(25)


@dataclass(frozen=True, slots=True)
class Captured:
    """One decoded picture and the source's own packets that came with it.

    ``packets`` are all packets demuxed since the picture before, audio included, in demux order, held back
    so that a key packet comes with the picture it starts. ``boundary`` is the index in ``packets`` of the
    packet a new segment may begin with: packets before it belong to the segment before.
    """

    picture: av.VideoFrame  # as decoded: the camera's own pixel format and size
    frame: ClearFrame  # the same picture, 4:2:0 limited range, even size
    packets: tuple[SealedPacket, ...]
    boundary: int | None  # None: nothing here that a segment should start with
    source_key: bool  # the packet at ``boundary`` is a source key packet
    discontinuity: bool  # first picture after a reconnect: a new segment has to begin
    streams: tuple[SealedStream, ...]  # what ``packets`` belong to; changes only at a discontinuity
    video_stream: int | None  # index of the video in ``streams``; None: the source has no coded video to copy
    time_us: int  # Unix microseconds, strictly rising
    source_us: int  # the same moment on the clock of ``packets``, in microseconds


class Source(ABC):
    """A camera, a file, or a scene. Iterate in one thread; ``close`` and the counters are for any thread."""

    def __init__(self, name: str, *, drops: bool) -> None:
        """Set the name that may be shown and whether the pipeline may drop pictures when it is behind."""
        self.name = name
        self.drops = drops
        self._closing = threading.Event()
        self._state: SourceState = "opening"
        self._reconnects = 0
        self._last_error = ""
        self._rate = DEFAULT_RATE
        self._expected_pictures: int | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Captured]:
        """Pictures until the source ends or is closed.

        Raises:
            MediaError: a source that is not live cannot be opened or read.
        """

    def trailing_packets(self) -> tuple[SealedPacket, ...]:
        """After the last picture: packets that belong to no later picture (audio, a decoder's rest)."""
        return ()

    def sealed_streams(self) -> tuple[SealedStream, ...]:
        """The source's own coded streams, as of the last picture; empty when there are none."""
        return ()

    @property
    def rate(self) -> Fraction:
        """Nominal pictures per second, as of the first picture."""
        return self._rate

    @property
    def expected_pictures(self) -> int | None:
        """How many pictures one pass has, as far as the source tells; None: it does not, or never ends."""
        return self._expected_pictures

    @property
    def state(self) -> SourceState:
        """What the source is doing."""
        return self._state

    @property
    def reconnects(self) -> int:
        """How often a live source was lost and opened again, successful or not."""
        return self._reconnects

    @property
    def last_error(self) -> str:
        """Why the source was lost last; empty when it never was."""
        return self._last_error

    def close(self) -> None:
        """End the iteration soon (within the read timeout of a silent network source)."""
        self._closing.set()

    def is_closing(self) -> bool:
        """True once ``close`` was called."""
        return self._closing.is_set()
