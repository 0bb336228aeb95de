"""Coding of an original that is split into regions: one picture in, one packet of every tile out.

Every tile has an encoder of its own, so that it decodes without the others; that costs bits at the borders
(no prediction across them) and a little time for each encoder.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from av.video.frame import VideoFrame

from base.errors import UsageError
from codec.packets import SealedPacket, SealedStream
from codec.pixel_formats import (
    FULL_RANGE,
    LIMITED_RANGE,
    is_full_range,
    lossless_format,
    repack,
    to_yuv420p,
    unjay,
)
from codec.planes import plane_rows
from codec.regions import RegionGrid, Tile
from codec.sealed_encoder import SealedEncoder, open_sealed_encoder, picture_shape
from codec.stream_info import region_extensions

_BT709 = 1
_PROBE_WIDTH, _PROBE_HEIGHT = 1024, 16  # rows of every plane fill libav's alignment: no padding


class RegionEncoder:
    """All tiles of a picture. Use ``open_region_encoder``.

    Attributes:
        grid: where the tiles lie, in pixels of the original.
    """

    def __init__(
        self, grid: RegionGrid, cropper: _Cropper, encoders: Sequence[SealedEncoder], source: VideoFrame
    ) -> None:
        self.grid = grid
        self._cropper = cropper
        self._encoders = tuple(encoders)
        self._accepts = picture_shape(source)

    def streams(self, clock_us: int) -> tuple[SealedStream, ...]:
        """What decoders need, one stream for each region, its index the region's number.

        Args:
            clock_us: capture time (Unix microseconds) less the time that ``encode`` is given.
        """
        return tuple(
            replace(encoder.stream, extensions=region_extensions(region, clock_us))
            for region, encoder in enumerate(self._encoders)
        )

    def accepts(self, picture: VideoFrame) -> bool:
        """Whether the picture has the size, format and range of the first one; else open another encoder."""
        return picture_shape(picture) == self._accepts

    def encode(
        self, picture: VideoFrame, force_key: bool = False, *, time_us: int | None = None
    ) -> list[SealedPacket]:
        """Code one picture without touching it; arguments and errors as of `SealedEncoder.encode`."""
        if not self.accepts(picture):
            message = f"sealed regions: opened for {self._accepts}, got {picture_shape(picture)}"
            raise UsageError(message)
        tiles = self._cropper.crop(picture)
        return [
            packet
            for encoder, tile in zip(self._encoders, tiles, strict=True)
            for packet in encoder.encode(tile, force_key, time_us=time_us)
        ]

    def flush(self) -> list[SealedPacket]:
        """What is left in the encoders, in practice nothing."""
        return [packet for encoder in self._encoders for packet in encoder.flush()]


def open_region_encoder(
    mode: str,
    picture: VideoFrame,
    columns: int,
    rows: int,
    *,
    rate: Fraction | int = 25,
    crf: float | None = None,
    preset: str | None = None,
    threads: int = 1,
    sample_aspect_ratio: Fraction = Fraction(0),
) -> RegionEncoder:
    """Open the encoders for pictures like ``picture``; arguments as of `open_sealed_encoder`.

    Raises:
        UsageError: as of `open_sealed_encoder`; tiles that would be smaller than 64 x 64 pixels.
    """
    pixel_format = lossless_format(picture.format.name) if mode == "ffv1" else "yuv420p"
    even = 0 if mode == "ffv1" else 1  # 4:2:0 has no odd sizes
    grid = RegionGrid.even(picture.width & ~even, picture.height & ~even, columns, rows)
    cropper = _Cropper(picture, pixel_format, grid)
    encoders = [
        open_sealed_encoder(
            mode,
            tile,
            rate=rate,
            crf=crf,
            preset=preset,
            threads=threads,
            stream_index=region,
            sample_aspect_ratio=sample_aspect_ratio,
        )
        for region, tile in enumerate(cropper.crop(picture))
    ]
    return RegionEncoder(grid, cropper, encoders, picture)


class _Cropper:
    """Cuts pictures into tiles, in one pixel format. The tiles are overwritten by the next call."""

    def __init__(self, picture: VideoFrame, pixel_format: str, grid: RegionGrid) -> None:
        self._grid = grid
        self._whole = VideoFrame(grid.width, grid.height, pixel_format)
        self._tiles = [VideoFrame(tile.width, tile.height, pixel_format) for tile in grid.tiles()]
        for tile in self._tiles:
            _tag(tile, picture)

    def crop(self, picture: VideoFrame) -> list[VideoFrame]:
        """The tiles of a picture, in the order of the regions."""
        if unjay(picture.format.name) != self._whole.format.name:
            (to_yuv420p if self._whole.format.name == "yuv420p" else repack)(picture, self._whole)
            picture = self._whole
        for place, target in zip(self._grid.tiles(), self._tiles, strict=True):
            copy_tile(picture, target, place)
        return self._tiles


def copy_tile(picture: VideoFrame, target: VideoFrame, place: Tile) -> None:
    """Copy the part of a picture at ``place`` into ``target``, which has its size and memory layout."""
    for layout, reads, writes in zip(
        plane_layouts(target.format.name), picture.planes, target.planes, strict=True
    ):
        first, width_bytes = layout.first_byte(place), layout.num_bytes * writes.width
        top = place.y // layout.y_step
        rows = plane_rows(reads, reads.line_size)[top : top + writes.height, first : first + width_bytes]
        plane_rows(writes, width_bytes)[:] = rows


@dataclass(frozen=True, slots=True)
class PlaneLayout:
    """How a plane of a pixel format lies in memory: bytes per sample, and pixels per sample each way."""

    num_bytes: int
    x_step: int
    y_step: int

    def first_byte(self, place: Tile) -> int:
        """Where a tile begins within a row."""
        return place.x // self.x_step * self.num_bytes


@functools.cache
def plane_layouts(pixel_format: str) -> tuple[PlaneLayout, ...]:
    """The planes of a pixel format, found on a picture whose rows have no padding."""
    probe = VideoFrame(_PROBE_WIDTH, _PROBE_HEIGHT, pixel_format)
    return tuple(
        PlaneLayout(
            plane.line_size // plane.width, _PROBE_WIDTH // plane.width, _PROBE_HEIGHT // plane.height
        )
        for plane in probe.planes
    )


def _tag(tile: VideoFrame, picture: VideoFrame) -> None:
    """Give a tile the picture's colour tags, or those of what it was converted to."""
    tile.color_primaries = picture.color_primaries
    tile.color_trc = picture.color_trc
    tile.colorspace = picture.colorspace
    tile.color_range = FULL_RANGE if is_full_range(picture) else picture.color_range
    if picture.format.is_rgb and not tile.format.is_rgb:
        tile.colorspace, tile.color_range = _BT709, LIMITED_RANGE  # what to_yuv420p makes of RGB
