"""Translate a demuxer's streams and packets into sealed records. Container metadata stays behind."""

from __future__ import annotations

from fractions import Fraction

from av.audio.stream import AudioStream
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from codec.packets import SealedPacket, SealedStream, StreamKind

# Codecs whose packets are plain pixels: "as coded" would mean raw video in the sealed layer.
_UNCODED = frozenset({"rawvideo", "wrapped_avframe", "v210", "v308", "v408", "v410", "yuv4"})
_MAX_TERM = 2**31 - 1


def codec_name(stream: Stream) -> str:
    """FFmpeg's codec name, or an empty string for a stream without a known codec."""
    codec = getattr(stream.codec_context, "codec", None)  # no context where FFmpeg has no decoder
    return "" if codec is None else str(codec.canonical_name)


def is_coded(stream: Stream) -> bool:
    """True if the stream's packets are worth keeping as they are."""
    name = codec_name(stream)
    return bool(name) and name not in _UNCODED


def time_base_of(stream: Stream) -> Fraction:
    """The time base of a stream's packets."""
    return stream.time_base or Fraction(1, 1_000_000)


def sealed_stream(index: int, stream: Stream) -> SealedStream:
    """Everything a decoder needs to know of a stream; ``index`` is its number in the sealed layer."""
    common = (codec_name(stream), time_base_of(stream))
    extradata = bytes(stream.codec_context.extradata or b"")
    if isinstance(stream, VideoStream):
        context = stream.codec_context
        return SealedStream(
            index,
            StreamKind.VIDEO,
            *common,
            width=context.width,
            height=context.height,
            pixel_format=context.pix_fmt or "",
            sample_aspect_ratio=_bounded(stream.sample_aspect_ratio),
            frame_rate=_bounded(stream.average_rate or stream.guessed_rate),
            color_range=int(context.color_range),
            color_primaries=int(context.color_primaries),
            color_transfer=int(context.color_trc),
            color_matrix=int(context.colorspace),
            extradata=extradata,
        )
    if isinstance(stream, AudioStream):
        audio = stream.codec_context
        return SealedStream(
            index,
            StreamKind.AUDIO,
            *common,
            sample_rate=audio.sample_rate,
            channel_layout=audio.layout.name,
            extradata=extradata,
        )
    return SealedStream(index, StreamKind.OTHER, *common, extradata=extradata)


def sealed_packet(index: int, packet: Packet[Stream], pts: int | None, dts: int | None) -> SealedPacket:
    """One packet, bit for bit, with the given timestamps."""
    return SealedPacket(index, bool(packet.is_keyframe), pts, dts, packet.duration or None, bytes(packet))


def _bounded(value: Fraction | None) -> Fraction:
    if value is None or value <= 0:
        return Fraction(0)
    return value if max(value.numerator, value.denominator) <= _MAX_TERM else value.limit_denominator(100_000)
