"""A folder of pictures as a camera, in the order of their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av

from base.errors import MediaError
from camera.sources.generated import GeneratedSource

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".pgm", ".ppm"})


class ImageFolder(GeneratedSource):
    """Every picture of a folder once (or again and again); all of one size."""

    def __init__(
        self, folder: Path, *, rate: Fraction, realtime: bool, loop: bool, start_unix_us: int | None
    ) -> None:
        super().__init__(folder.name, rate=rate, realtime=realtime, loop=loop, start_unix_us=start_unix_us)
        self._folder = folder

    def pictures(self) -> Iterator[av.VideoFrame]:
        """The folder's pictures, decoded one at a time."""
        size: tuple[int, int] | None = None
        paths = picture_paths(self._folder)
        self._expected_pictures = None if self._loop else len(paths)
        for path in paths:
            picture = read_picture(path)
            size = size or (picture.width, picture.height)
            if (picture.width, picture.height) != size:
                message = f"{path.name}: {picture.width}x{picture.height}, expected {size[0]}x{size[1]}"
                raise MediaError(f"{message} as the folder's first picture")
            yield picture


def picture_paths(folder: Path) -> list[Path]:
    """The folder's pictures in natural order: 2.png comes before 10.png.

    Raises:
        MediaError: no picture in the folder, or the folder cannot be read.
    """
    try:
        paths = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES]
    except OSError as error:
        message = f"source {folder.name}: {error.strerror}"
        raise MediaError(message) from error
    if not paths:
        message = f"source {folder.name}: no pictures ({', '.join(sorted(SUFFIXES))}) in the folder"
        raise MediaError(message)
    return sorted(paths, key=lambda path: [_natural(part) for part in re.split(r"(\d+)", path.name)])


def read_picture(path: Path) -> av.VideoFrame:
    """Decode one picture file.

    Raises:
        MediaError: not a picture.
    """
    try:
        with av.open(str(path)) as container:
            return next(container.decode(video=0))
    except (av.error.FFmpegError, StopIteration, IndexError, OSError) as error:
        message = f"{path.name}: not a readable picture"
        raise MediaError(message) from error


def _natural(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (-1, part)
