"""Muxing of packets that are already coded, through libav, into a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import cast

import av
from av.audio.codeccontext import AudioCodecContext
from av.container import OutputContainer
from av.container.core import Flags
from av.packet import Packet
from av.stream import Stream
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from base.errors import MediaError, UsageError, VeilError
from base.files import sync_folder
from codec.packets import SealedPacket, SealedStream
from codec.stream_info import reorder_depth_of, rotation_of

MUXER_OF_SUFFIX = MappingProxyType(
    {
        ".mkv": "matroska",
        ".mp4": "mp4",
        ".m4v": "mp4",
        ".mov": "mov",
        ".ts": "mpegts",
        ".avi": "avi",
        ".nut": "nut",
        ".h264": "h264",
        ".h265": "hevc",
    }
)
"""libav's muxer for each file name ending that we write."""

_BITEXACT = cast(int, Flags.bitexact.value)  # the stubs take the value for a flag
_SCRATCH_FORMATS = ("nut", "matroska", "mov", "avi", "mpegts")
_MOV_FAMILY = ("mp4", "mov")
# libav's TS muxer takes any codec, but labels others as private data that nothing plays.
_TS_CODECS = frozenset(
    ("h264", "hevc", "mpeg2video", "mpeg4", "aac", "aac_latm", "mp2", "mp3", "ac3", "eac3", "dts", "opus")
)


# Records come from strangers: numbers may not fit libav's fields, and names may mean nothing to it.
_REFUSALS = (av.FFmpegError, OSError, OverflowError, TypeError, ValueError)


def temporary_neighbour(path: Path) -> Path:
    """A hidden name beside ``path`` for a file that is not finished."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def rescale(ticks: int, from_base: Fraction, to_base: Fraction) -> int:
    """Ticks of another time base, halves away from zero as libav rounds."""
    # In integers: for every packet of a day, fractions cost more than decrypting does.
    value = ticks * from_base.numerator * to_base.denominator
    divisor = from_base.denominator * to_base.numerator
    magnitude = (2 * abs(value) + divisor) // (2 * divisor)
    return magnitude if value >= 0 else -magnitude


class LibavMuxer:
    """Packets into one file. No dates, no identifiers by chance: the same packets give the same bytes."""

    def __init__(self, path: Path, muxer: str, streams: Sequence[SealedStream]) -> None:
        """Create the file under a temporary name.

        Raises:
            UsageError: the container cannot hold one of the streams, or libav cannot write its codec.
            MediaError: the file cannot be created.
        """
        self._path = path
        self._temporary = temporary_neighbour(path)
        options = {"movflags": "+faststart"} if muxer in _MOV_FAMILY else {}
        try:
            self._container: OutputContainer = av.open(
                f"file:{self._temporary}", "w", format=muxer, container_options=options
            )
        except (av.FFmpegError, OSError) as error:
            message = f"{path}: cannot be created: {error}"
            raise MediaError(message) from error
        self._container.flags |= _BITEXACT
        self._time_bases = {stream.index: stream.time_base for stream in streams}
        self._last_dts: dict[int, int] = {}
        try:
            self._streams = {stream.index: add_stream(self._container, stream) for stream in streams}
            self._container.start_encoding()
        except BaseException as error:
            self.abort()
            if isinstance(error, _REFUSALS) and not isinstance(error, VeilError):
                message = f"{path.name}: libav refuses these streams: {error}"
                raise MediaError(message) from error
            raise

    def write(self, packet: SealedPacket) -> None:
        """Write one packet; decoding times have to rise within each stream.

        Raises:
            MediaError: libav refuses it.
        """
        index = packet.stream_index
        try:
            coded: Packet[Stream] = Packet(packet.data)
            coded.stream = self._streams[index]
            coded.time_base = self._time_bases[index]
            coded.pts, coded.dts, coded.duration = packet.pts, packet.dts, max(packet.duration or 0, 0)
            coded.is_keyframe = packet.is_key
            self._keep_rising(coded, index)
            self._container.mux_one(coded)
        except _REFUSALS as error:
            message = f"{self._path.name}: packet of stream {index} cannot be written: {error}"
            raise MediaError(message) from error

    def _keep_rising(self, coded: Packet[Stream], index: int) -> None:
        """Move on a packet that falls on the tick of the one before: containers have coarser clocks."""
        ticks = self._streams[index].time_base
        if coded.dts is None or not ticks:
            return
        dts = rescale(coded.dts, self._time_bases[index], ticks)
        last = self._last_dts.get(index)
        if last is not None and dts <= last:
            dts = last + 1
            pts = None if coded.pts is None else rescale(coded.pts, coded.time_base, ticks)
            coded.pts, coded.dts = None if pts is None else max(pts, dts), dts
            coded.duration = rescale(coded.duration or 0, coded.time_base, ticks)
            coded.time_base = ticks
        self._last_dts[index] = dts

    def close(self) -> None:
        """Finish the file, bring it to the disk and give it its name.

        Raises:
            MediaError: libav cannot finish it; nothing is left then.
        """
        try:
            self._container.close()
            descriptor = os.open(self._temporary, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._temporary.replace(self._path)
        except _REFUSALS as error:
            self._temporary.unlink(missing_ok=True)
            message = f"{self._path.name}: cannot be finished: {error}"
            raise MediaError(message) from error
        sync_folder(self._path.parent)

    def abort(self) -> None:
        """Leave nothing."""
        with contextlib.suppress(*_REFUSALS):  # it is thrown away anyhow
            self._container.close()
        self._temporary.unlink(missing_ok=True)


def add_stream(container: OutputContainer, stream: SealedStream) -> Stream:
    """Add a stream with all parameters that its record has, without opening an encoder.

    Raises:
        UsageError: the container cannot hold it, or libav has no encoder of that codec to take defaults from.
    """
    template = _template(stream.codec)
    name = container.format.name
    if not _holds(name, stream.codec):
        message = f"stream {stream.index}: {name} cannot hold {stream.codec}; {_suggestion(stream.codec)}"
        raise UsageError(message)
    added = container.add_stream_from_template(template, opaque=True)
    added.time_base = stream.time_base
    context = added.codec_context
    context.extradata = stream.extradata or None
    if isinstance(added, VideoStream) and isinstance(context, VideoCodecContext):
        _describe_video(added, context, stream)
    elif isinstance(context, AudioCodecContext):
        context.sample_rate = stream.sample_rate
        context.layout = stream.channel_layout or "mono"
    return added


def _describe_video(added: VideoStream, context: VideoCodecContext, stream: SealedStream) -> None:
    context.width, context.height = stream.width, stream.height
    if stream.pixel_format:
        context.pix_fmt = stream.pixel_format
    if stream.sample_aspect_ratio:
        context.sample_aspect_ratio = stream.sample_aspect_ratio
    if stream.frame_rate:
        context.framerate = stream.frame_rate
    context.color_range = stream.color_range
    context.color_primaries = stream.color_primaries
    context.color_trc = stream.color_transfer
    context.colorspace = stream.color_matrix
    context.reorder_depth = reorder_depth_of(stream)
    if rotation := rotation_of(stream):
        added.set_display_rotation(rotation)


def _template(codec: str) -> Stream:
    """A stream of this codec in a container that is never written.

    libav's parameters can only be filled in from Python through a codec context, and an
    output stream only gets one from an encoder or a template.
    """
    for name in _SCRATCH_FORMATS:
        scratch = av.open(io.BytesIO(), "w", format=name)
        try:
            return scratch.add_stream(codec)
        except av.FFmpegError:
            break
        except ValueError:
            continue
    message = f"libav cannot write streams of codec {codec!r}"
    raise UsageError(message)


def _holds(muxer: str, codec: str) -> bool:
    if muxer == "mpegts" and codec not in _TS_CODECS:
        return False
    try:
        av.open(io.BytesIO(), "w", format=muxer).add_mux_stream(codec)
    except ValueError:
        return False
    return True


def _suggestion(codec: str) -> str:
    suffixes = (".mkv", ".mp4", ".mov", ".ts", ".avi", ".nut")
    fitting = [suffix for suffix in suffixes if _holds(MUXER_OF_SUFFIX[suffix], codec)]
    return f"endings that can: {', '.join(fitting) or 'none'}"
