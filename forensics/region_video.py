"""Pictures again from one segment whose original is split: recovered tiles over the protected video.

What is not recovered shows what everybody sees without a key. Where the signature contradicts a picture of
the protected video, it and what was predicted from it is left grey instead: a tile must not stand in a
scene that the camera did not make.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import av
from av.packet import Packet
from av.stream import Stream
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from base.errors import FormatError
from codec.packets import SealedPacket
from codec.pixel_formats import FULL_RANGE, LIMITED_RANGE, is_full_range, to_yuv420p
from codec.planes import plane_rows
from codec.regions import RegionGrid, Tile
from codec.segments import SegmentView
from codec.stream_info import clock_of
from codec.unseal import OpenedRegion

_LOG = logging.getLogger(__name__)
_DECODERS = {"av1": "libdav1d"}  # libav's own av1 needs hardware
_FORMAT = "yuv420p"
_LUMA_BLACK, _CHROMA_GREY = 64, 128
_FAILURES = (av.FFmpegError, ValueError, OverflowError, TypeError, EOFError)  # hostile streams, odd sizes


@dataclass(frozen=True, slots=True)
class ComposedPicture:
    """One picture of the output.

    Attributes:
        frame_index: within the segment.
        time_us: capture, Unix microseconds.
        picture: yuv420p, the size of the protected picture; overwritten by the next one.
        recovered: regions that show the original.
    """

    frame_index: int
    time_us: int
    picture: VideoFrame
    recovered: frozenset[int]


class TileVideo:
    """The tile of one region, decoded in order; ask for times that rise."""

    def __init__(self, region: OpenedRegion, tile: Tile) -> None:
        """Prepare to decode.

        Raises:
            FormatError: the region's stream is missing, or does not say how its times relate to capture.
        """
        stream = next(iter(region.streams), None)
        clock_us = None if stream is None else clock_of(stream)
        if stream is None or clock_us is None:
            message = f"region {region.region}: the description of its stream is lost"
            raise FormatError(message)
        self.problem = ""
        """Why it ends early; empty while it does not."""
        self._tile = tile
        self._name = f"region {region.region}"
        self.is_full_range = stream.color_range == FULL_RANGE
        self._time_base = stream.time_base
        self._clock_us = clock_us
        self._frames = self._decode(region, _DECODERS.get(stream.codec, stream.codec), stream.extradata)
        self._next: tuple[int, VideoFrame] | None = None

    def at(self, time_us: int) -> VideoFrame | None:
        """The tile taken at ``time_us``; None if it is lost or does not decode."""
        while not self.problem:
            self._next = self._next or next(self._frames, None)
            if self._next is None or self._next[0] > time_us:
                return None
            (found_us, frame), self._next = self._next, None
            if found_us == time_us:
                return frame
        return None

    def _decode(self, region: OpenedRegion, codec: str, extradata: bytes) -> Iterator[tuple[int, VideoFrame]]:
        try:
            decoder = cast(VideoCodecContext, av.CodecContext.create(codec, "r"))
            decoder.extradata = extradata or None
            decoder.width, decoder.height = self._tile.width, self._tile.height
            decoder.thread_count = 1  # more would hold pictures back
            for packet in decodable(region):
                coded: Packet[Stream] = Packet(packet.data)
                coded.pts, coded.time_base = packet.pts, self._time_base
                yield from self._timed(decoder.decode(coded))
            yield from self._timed(decoder.decode(None))
        except _FAILURES as error:
            _LOG.info("%s does not decode: %s", self._name, error)
            self.problem = f"{self._name}: does not decode"

    def _timed(self, frames: list[VideoFrame]) -> Iterator[tuple[int, VideoFrame]]:
        for frame in frames:
            if (frame.width, frame.height) != (self._tile.width, self._tile.height) or frame.pts is None:
                message = f"{frame.width}x{frame.height}, expected {self._tile.width}x{self._tile.height}"
                raise ValueError(message)
            yield round(frame.pts * self._time_base * 1_000_000) + self._clock_us, frame


def decodable(region: OpenedRegion) -> Iterator[SealedPacket]:
    """Packets up to the first hole, and those behind it that need nothing before them."""
    yield from region.packets[: region.num_intact_packets]
    yield from (packet for packet in region.packets[region.num_intact_packets :] if packet.is_key)


class Composer:
    """Makes the pictures of segments, one after the other.

    Attributes:
        canvas: the picture that they are made on.
    """

    def __init__(self, width: int, height: int) -> None:
        """Take the size of the protected picture in pixels, both even."""
        self.canvas = VideoFrame(width, height, _FORMAT)
        self._scratch: dict[tuple[int, int], VideoFrame] = {}

    def compose(
        self,
        view: SegmentView,
        bad_frames: frozenset[int],
        grid: RegionGrid,
        tiles: Mapping[int, TileVideo],
        wanted: Mapping[int, frozenset[int]],
    ) -> Iterator[ComposedPicture]:
        """Yield a picture for every unit of the segment.

        Args:
            view: the segment's units.
            bad_frames: indices of units that the signature contradicts.
            grid: where the tiles lie.
            tiles: by region, those that were opened.
            wanted: regions to show, by frame index.
        """
        background = _Background(self.canvas)
        for frame, viewed in view.own_units():
            background.draw(viewed.unit.annexb(), is_bad=frame.frame_index in bad_frames)
            recovered: set[int] = set()
            for region, tile in tiles.items():
                picture = tile.at(frame.time_us)
                if picture is None or region not in wanted[frame.frame_index]:
                    continue
                if tile.is_full_range or is_full_range(picture):
                    picture = _limited(picture)
                self._paste(picture, grid.tile(region))
                recovered.add(region)
            yield ComposedPicture(frame.frame_index, frame.time_us, self.canvas, frozenset(recovered))

    def _paste(self, picture: VideoFrame, place: Tile) -> None:
        """Copy a tile onto the canvas; the last odd column or row of an original is not on it."""
        size = (
            min(place.width, self.canvas.width - place.x),
            min(place.height, self.canvas.height - place.y),
        )
        size = (size[0] & ~1, size[1] & ~1)
        if min(size) <= 0:
            return
        target = self._scratch.setdefault(size, VideoFrame(*size, _FORMAT))
        to_yuv420p(picture, target)
        for step, reads, writes in zip((1, 2, 2), target.planes, self.canvas.planes, strict=True):
            left, top = place.x // step, place.y // step
            rows = plane_rows(writes, writes.line_size)[top : top + reads.height, left : left + reads.width]
            rows[:] = plane_rows(reads, reads.width)


def _limited(picture: VideoFrame) -> VideoFrame:
    """A picture of a camera that uses all code values, in the range of the protected video."""
    return picture.reformat(format=_FORMAT, src_color_range=FULL_RANGE, dst_color_range=LIMITED_RANGE)


class _Background:
    """The protected video of one segment, decoded onto the canvas."""

    def __init__(self, canvas: VideoFrame) -> None:
        self._canvas = canvas
        self._decoder = av.CodecContext.create("h264", "r")
        self._decoder.thread_count = 1
        self._is_lost = False
        self._blank()

    def draw(self, annexb: bytes, *, is_bad: bool) -> None:
        """Put the unit's picture on the canvas; grey from the first bad one to the segment's end."""
        self._is_lost |= is_bad
        if not self._is_lost:
            self._is_lost = not self._decode(annexb)
        if self._is_lost:
            self._blank()

    def _decode(self, annexb: bytes) -> bool:
        try:
            frames = self._decoder.decode(Packet(annexb))
        except _FAILURES:
            return False
        for frame in frames[-1:]:
            if (frame.width, frame.height) != (self._canvas.width, self._canvas.height):
                return False
            to_yuv420p(frame, self._canvas)
        return bool(frames)

    def _blank(self) -> None:
        for plane, value in zip(self._canvas.planes, (_LUMA_BLACK, _CHROMA_GREY, _CHROMA_GREY), strict=True):
            plane_rows(plane, plane.line_size)[:] = value
