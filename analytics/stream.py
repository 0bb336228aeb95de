"""Pictures of a protected video, from a file or live over WHEP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from analytics.interface import Image
from base.errors import UsageError


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """One decoded picture.

    Attributes:
        image_bgr_hwc: uint8 BGR, [H, W, 3].
        index: position among all decoded pictures of the stream, those passed over included; from 0.
        time_s: presentation time in seconds since the first picture.
    """

    image_bgr_hwc: Image
    index: int
    time_s: float


class FrameStream(Protocol):
    """Pictures in presentation order. A context manager; iterate once."""

    @property
    def num_frames(self) -> int | None:
        """About how many pictures the stream has in all; None if nobody knows (live)."""

    @property
    def num_dropped(self) -> int:
        """Pictures so far that could not be decoded, or came faster than they were taken."""

    def __iter__(self) -> Iterator[StreamFrame]: ...

    def close(self) -> None:
        """End the iteration; may be called from another thread. Leaving the with block frees everything."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class EncodedUnit(Protocol):
    """One received H.264 access unit."""

    @property
    def data(self) -> bytes:
        """Annex-B bytes, complete; parameter sets in band before every key frame."""

    @property
    def pts_us(self) -> int:
        """Presentation time in microseconds, on any origin, not running backwards."""


class UnitStream(Protocol):
    """What ``analytics.whep_client.open_whep(url, token=None)`` gives: access units as they arrive."""

    def __aiter__(self) -> AsyncIterator[EncodedUnit]: ...

    @property
    def num_dropped(self) -> int:
        """Units lost so far because they were not taken in time."""

    def request_key_frame(self) -> None:
        """Ask the camera for a key frame, after a unit that could not be decoded."""

    async def close(self) -> None:
        """End the session at the server and free the sockets."""


def open_frames(
    source: str, *, every: int = 1, token: str | None = None, queue_frames: int = 4
) -> FrameStream:
    """Open ``source``: an http(s) URL is a WHEP endpoint, anything else the path of a video file.

    Args:
        source: URL or path.
        every: take each ``every``-th decoded picture only.
        token: bearer token for the WHEP endpoint.
        queue_frames: live only: decoded pictures that wait for the detector; the oldest is dropped first.

    Raises:
        UsageError: no such file, or a count below 1.
        MediaError: the file is not a video that can be decoded.
        PeerError: the endpoint refuses or does not answer (raised on iteration).
    """
    if every < 1 or queue_frames < 1:
        message = f"every and queue_frames: expected at least 1, got {every} and {queue_frames}"
        raise UsageError(message)
    if source.startswith(("http://", "https://")):
        from analytics.live_stream import LiveFrames  # noqa: PLC0415  # sockets only where they are used

        return LiveFrames.connect(source, token=token, every=every, queue_frames=queue_frames)
    from analytics.file_stream import FileFrames  # noqa: PLC0415

    return FileFrames(source, every=every)
