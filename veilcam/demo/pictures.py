"""Pictures out of video files, for the sheet."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from base.errors import MediaError

Image = npt.NDArray[np.uint8]


def frames_at(path: Path, indices: Collection[int]) -> dict[int, Image]:
    """Decode the frames of these numbers (from 0, in display order) as BGR, uint8 [H, W, 3].

    Numbers beyond the end are left out.

    Raises:
        MediaError: the file cannot be decoded.
    """
    found: dict[int, Image] = {}
    last = max(indices, default=-1)
    try:
        with av.open(str(path)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number in indices:
                    found[number] = np.asarray(frame.to_ndarray(format="bgr24"), np.uint8)
                if number >= last:
                    break
    except (av.FFmpegError, IndexError) as error:
        raise MediaError(f"{path.name}: cannot be decoded: {error}") from error
    return found


def num_video_frames(path: Path) -> int:
    """Number of coded pictures in the first video stream."""
    with av.open(str(path)) as container:
        return sum(1 for packet in container.demux(video=0) if packet.size)
