"""Between ordinary files and sealed packets: taking a source's own bitstream, and writing it out again."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from av.audio.codeccontext import AudioCodecContext
from av.codec.context import CodecContext
from av.packet import Packet
from av.stream import Stream
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from base.errors import MediaError, UsageError
from codec.muxer import MUXER_OF_SUFFIX, LibavMuxer
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.stream_info import reorder_depth_of, stream_extensions

_LOG = logging.getLogger(__name__)
_PEEK_PACKETS = 64  # among these, every stream of a sensibly interleaved source has shown up
_VIDEO_ONLY = ("h264", "hevc")
_JUMP_BACK = Fraction(1, 2)  # seconds; less is jitter of one packet, more is a clock that started anew
_U32_MAX = 2**32 - 1


def describe_stream(stream: Stream, index: int | None = None, *, rotation_degrees: int = 0) -> SealedStream:
    """The STREAM record of an open source's stream. The container's metadata stays behind.

    Args:
        stream: a video or audio stream of an input container.
        index: number for the record; None takes the container's.
        rotation_degrees: counter-clockwise, as ``VideoFrame.rotation`` of a decoded frame tells; libav tells
            it nowhere else.

    Raises:
        MediaError: a stream without a codec that libav knows.
    """
    context = _codec_context(stream)
    number = stream.index if index is None else index
    if context is None or not stream.time_base:
        message = f"stream {stream.index}: {stream.type} without a known codec cannot be copied"
        raise MediaError(message)
    described = SealedStream(
        index=number,
        kind=StreamKind.OTHER,
        codec=context.codec.canonical_name,
        time_base=stream.time_base,
        extradata=context.extradata or b"",
    )
    if isinstance(stream, VideoStream) and isinstance(context, VideoCodecContext):
        return replace(
            described,
            kind=StreamKind.VIDEO,
            width=context.width,
            height=context.height,
            pixel_format=context.pix_fmt or "",
            sample_aspect_ratio=_small(stream.sample_aspect_ratio),
            frame_rate=_small(stream.average_rate or stream.guessed_rate),
            color_range=context.color_range,
            color_primaries=context.color_primaries,
            color_transfer=context.color_trc,
            color_matrix=context.colorspace,
            extensions=stream_extensions(rotation_degrees, context.reorder_depth),
        )
    if isinstance(context, AudioCodecContext):
        return replace(
            described,
            kind=StreamKind.AUDIO,
            sample_rate=context.sample_rate,
            channel_layout=context.layout.name,
        )
    return described


def _codec_context(stream: Stream) -> CodecContext | None:
    return stream.codec_context  # None for data streams, whatever the stubs say


def _small(value: Fraction | None) -> Fraction:
    """A ratio that fits its record; 0 for none and for nonsense from a damaged header."""
    if value is None or value < 0 or max(value.numerator, value.denominator) > _U32_MAX:
        return Fraction(0)
    return value


def capture_packet(packet: Packet[Stream], stream_index: int | None = None) -> SealedPacket:
    """The PACKET record of a packet as the demuxer gave it, bit for bit.

    Args:
        packet: not empty: flush packets at the end of a file hold nothing.
        stream_index: number of the STREAM record; None takes the container's.
    """
    return SealedPacket(
        stream_index=packet.stream_index if stream_index is None else stream_index,
        is_key=packet.is_keyframe,
        pts=packet.pts,
        dts=packet.dts,
        duration=packet.duration or None,
        data=bytes(packet),
    )


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What ``write_packets`` did.

    Attributes:
        num_packets: packets written.
        shifted_seconds: what was taken off all times so that the file starts at 0; 0 if it did before.
        num_jumps: how often times went back and were moved on, as where a camera started anew.
        num_nudged: packets whose decoding time did not rise and was set to one tick after the one before,
            and those without any time, which follow the one before at its distance.
        left_out: streams that are neither video nor audio, and audio beside .h264/.h265.
    """

    num_packets: int
    shifted_seconds: float
    num_jumps: int
    num_nudged: int
    left_out: tuple[int, ...]


def write_packets(
    path: Path, streams: Sequence[SealedStream], packets: Iterable[SealedPacket]
) -> WriteReport:
    """Write an ordinary file: .mkv, .mp4, .mov, .ts, .avi, .nut, or .h264/.h265 for the video alone.

    Payloads are written as they are; only the framing that the container wants is changed
    (start codes or lengths, ADTS heads). The same input gives the same bytes: no dates, no
    random identifiers, no metadata. The file appears when it is whole.

    Args:
        path: the file; its ending chooses the container.
        streams: from the STREAM records.
        packets: in the order of the source. Times that start above 0 are shifted to 0.

    Raises:
        UsageError: unknown ending, or a stream that the container cannot hold (the message tells which can).
        MediaError: libav refuses a packet; nothing is left.
    """
    muxer_name = MUXER_OF_SUFFIX.get(path.suffix.lower())
    if muxer_name is None:
        message = f"{path.name}: expected a name that ends in {', '.join(MUXER_OF_SUFFIX)}"
        raise UsageError(message)
    kinds = (StreamKind.VIDEO,) if muxer_name in _VIDEO_ONLY else (StreamKind.VIDEO, StreamKind.AUDIO)
    kept = [stream for stream in streams if stream.kind in kinds]
    left_out = tuple(stream.index for stream in streams if stream.kind not in kinds)
    muxer = LibavMuxer(path, muxer_name, kept)
    clock = _Clock(kept)
    num_packets = 0
    try:
        for packet in clock.start(packets):
            muxer.write(clock.place(packet))
            num_packets += 1
        muxer.close()
    except BaseException:
        muxer.abort()
        raise
    report = WriteReport(num_packets, float(clock.shift), clock.num_jumps, clock.num_nudged, left_out)
    _LOG.debug("%s: %s", path.name, report)
    return report


class _Clock:
    """Places packets on one rising time line that begins at 0.

    A source that starts anew in between (a camera that lost its link, a file that loops)
    sends its times back; each stream then moves on to the next offset, which continues
    where everything before ended.
    """

    def __init__(self, streams: Sequence[SealedStream]) -> None:
        self._time_bases = {stream.index: stream.time_base for stream in streams}
        self._reorders = {stream.index: reorder_depth_of(stream) > 0 for stream in streams}
        self._offsets = [Fraction(0)]  # seconds, one for each start of the source
        self._start: dict[int, int] = {}  # which of them a stream is in
        self._last: dict[int, int] = {}  # placed decoding time, in ticks
        self._end = Fraction(0)  # of everything placed so far, in seconds
        self.num_nudged = 0

    @property
    def shift(self) -> Fraction:
        """Seconds taken off the first times."""
        return self._offsets[0]

    @property
    def num_jumps(self) -> int:
        """How often time went back."""
        return len(self._offsets) - 1

    def start(self, packets: Iterable[SealedPacket]) -> Iterable[SealedPacket]:
        """The packets of known streams; takes the first ones to find where time begins."""
        known = (packet for packet in packets if packet.stream_index in self._time_bases)
        first = list(itertools.islice(known, _PEEK_PACKETS))
        # Times below 0 stay: they mark what is decoded but not shown.
        self._offsets[0] = max(min(self._first_times(first), default=Fraction(0)), Fraction(0))
        return itertools.chain(_with_decoding_times(first), known)

    def _first_times(self, packets: Iterable[SealedPacket]) -> Iterable[Fraction]:
        """Presentation times in seconds, of each stream up to where its time goes back."""
        latest: dict[int, Fraction] = {}
        for packet in packets:
            if packet.pts is not None:
                time = packet.pts * self._time_bases[packet.stream_index]
                latest.setdefault(packet.stream_index, time)
                if latest[packet.stream_index] - time > _JUMP_BACK:
                    return
                latest[packet.stream_index] = time
                yield time

    def place(self, packet: SealedPacket) -> SealedPacket:
        """The packet with its times on the output's time line."""
        index = packet.stream_index
        time_base = self._time_bases[index]
        if packet.dts is None and not self._reorders[index]:
            packet = replace(packet, dts=packet.pts)
        decode = packet.dts if packet.dts is not None else packet.pts
        if decode is None:
            return self._place_behind(packet)
        if self._went_back(index, decode):
            self._move_on(index, decode)
        offset = self._offset_ticks(index)
        last = self._last.get(index)
        dts = None if packet.dts is None else packet.dts - offset
        pts = None if packet.pts is None else packet.pts - offset
        if dts is not None and last is not None and dts <= last:
            dts = last + 1
            pts = None if pts is None else max(pts, dts)
            self.num_nudged += 1
        placed = decode - offset if dts is None else dts
        self._last[index] = placed
        step = packet.duration or (placed - last if last is not None else 1)
        self._end = max(self._end, (placed + step) * time_base)
        return replace(packet, pts=pts, dts=dts)

    def _place_behind(self, packet: SealedPacket) -> SealedPacket:
        """A packet without any time, after the one before: no container holds packets without a time."""
        last = self._last.get(packet.stream_index)
        placed = 0 if last is None else last + max(packet.duration or 1, 1)
        self._last[packet.stream_index] = placed
        self._end = max(self._end, placed * self._time_bases[packet.stream_index])
        self.num_nudged += 1
        return replace(packet, pts=placed, dts=placed)

    def _offset_ticks(self, index: int) -> int:
        return round(self._offsets[self._start.get(index, 0)] / self._time_bases[index])

    def _went_back(self, index: int, decode: int) -> bool:
        last = self._last.get(index)
        if last is None:
            return False
        return (last - (decode - self._offset_ticks(index))) * self._time_bases[index] > _JUMP_BACK

    def _move_on(self, index: int, decode: int) -> None:
        start = self._start.get(index, 0) + 1
        if start == len(self._offsets):
            self._offsets.append(decode * self._time_bases[index] - self._end)
        self._start[index] = start


def _with_decoding_times(packets: Sequence[SealedPacket]) -> list[SealedPacket]:
    """Give the first packets of a stream decoding times, counted back from the first that has one.

    Matroska stores presentation times only, and libav cannot tell the others until as many
    pictures passed as B-frames reorder.
    """
    result = list(packets)
    following: dict[int, int] = {}
    for place in range(len(result) - 1, -1, -1):
        packet = result[place]
        after = following.get(packet.stream_index)
        if packet.dts is None and packet.pts is not None and after is not None:
            packet = replace(packet, dts=min(after - max(packet.duration or 1, 1), packet.pts))
            result[place] = packet
        if packet.dts is not None:
            following[packet.stream_index] = packet.dts
    return result
