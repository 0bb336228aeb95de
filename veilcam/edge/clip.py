"""A clip as protected frames: decoded if it is protected, and protected here if it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av

from base.errors import FormatError, MediaError
from base.frames import ClearFrame, ProtectedFrame
from camera.sources.convert import clear_frame
from codec import read_segments
from codec.container import read_access_units
from models import load_protector


def is_protected(path: Path) -> bool:
    """Whether the file's first segment says that veilcam wrote it."""
    try:
        with read_access_units(path) as units:
            first = next(iter(read_segments(units)), None)
        return first is not None and first.header() is not None
    except (FormatError, MediaError):
        return False


def protected_frames(path: Path, *, limit: int | None = None) -> Iterator[tuple[ProtectedFrame, float]]:
    """Frames with their times in seconds from the first; nothing clear leaves this function.

    Args:
        path: any video. One that is not protected is protected on the way, as a camera does it.
        limit: at most so many frames.

    Raises:
        MediaError: it cannot be decoded.
    """
    protector = None if is_protected(path) else load_protector()
    for number, (frame, time_s) in enumerate(_decoded(path)):
        if limit is not None and number >= limit:
            return
        if protector is None:  # the file's own picture is the protected one
            yield ProtectedFrame(frame.luma_hw, frame.cb_hw, frame.cr_hw, frame.time_us), time_s
        else:
            yield protector.protect(frame), time_s


def count_frames(path: Path) -> int | None:
    """About how many there are; None if the file does not say."""
    try:
        with av.open(str(path)) as container:
            return int(container.streams.video[0].frames) or None
    except (av.FFmpegError, IndexError):
        return None


def _decoded(path: Path) -> Iterator[tuple[ClearFrame, float]]:
    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            rate = float(stream.average_rate or 25)
            first_s: float | None = None
            for number, picture in enumerate(container.decode(stream)):
                time_s = number / rate if picture.pts is None else picture.time
                first_s = time_s if first_s is None else first_s
                yield clear_frame(picture, round(1e6 * (time_s - first_s))), time_s - first_s
    except (av.FFmpegError, IndexError) as error:
        message = f"{path.name}: cannot be decoded as video"
        raise MediaError(message) from error
