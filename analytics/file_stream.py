"""Pictures from a video file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import av

from analytics.decoding import to_bgr
from analytics.stream import StreamFrame
from base.errors import MediaError, UsageError

logger = logging.getLogger(__name__)


class FileFrames:
    """FrameStream of the first video track of a file; damaged packets are passed over and counted.

    Raises:
        UsageError: no such file.
        MediaError: not a video file.
    """

    def __init__(self, path: str, *, every: int = 1) -> None:
        if not Path(path).is_file():
            message = f"{path}: no such file"
            raise UsageError(message)
        self._name = Path(path).name
        self._every = every
        self._num_dropped = 0
        self._closed = False
        try:
            self._container = av.open(path)
        except av.FFmpegError as error:
            message = f"{self._name}: not a video file: {error.strerror}"
            raise MediaError(message) from error
        if not self._container.streams.video:
            self._container.close()
            message = f"{self._name}: holds no video track"
            raise MediaError(message)
        self._stream = self._container.streams.video[0]
        self._stream.thread_type = "SLICE"  # frame threads lose good pictures beside a damaged one

    @property
    def num_frames(self) -> int | None:
        """See FrameStream."""
        if self._stream.frames:
            return int(self._stream.frames)
        if self._container.duration and self._stream.average_rate:
            return max(1, round(self._container.duration / av.time_base * self._stream.average_rate))
        return None

    @property
    def num_dropped(self) -> int:
        """See FrameStream."""
        return self._num_dropped

    def __iter__(self) -> Iterator[StreamFrame]:
        rate = float(self._stream.average_rate or 25)  # only for streams without times, such as raw H.264
        first_s: float | None = None
        for index, picture in enumerate(self._decode()):
            if self._closed:
                return
            time_s = index / rate if picture.pts is None else picture.time
            first_s = time_s if first_s is None else first_s
            if index % self._every == 0:
                yield StreamFrame(to_bgr(picture), index, time_s - first_s)

    def _decode(self) -> Iterator[av.VideoFrame]:
        try:
            for packet in self._container.demux(self._stream):
                try:
                    pictures = packet.decode()
                except av.InvalidDataError:
                    self._num_dropped += 1
                    logger.warning("%s: packet at pts %s cannot be decoded", self._name, packet.pts)
                    continue
                yield from pictures
        except av.FFmpegError as error:
            message = f"{self._name}: reading failed: {error.strerror}"
            raise MediaError(message) from error

    def close(self) -> None:
        """See FrameStream."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._container.close()
