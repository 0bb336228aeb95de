"""Coding of the original for the sealed layer where it is not copied: H.264, H.265, AV1, lossless FFV1."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast, get_args

import av
from av.codec.context import Flags, ThreadType
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType, VideoFrame

from base.errors import MediaError, UsageError
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.pixel_formats import (
    FULL_RANGE,
    LIMITED_RANGE,
    is_full_range,
    lossless_format,
    repack,
    to_yuv420p,
)

_LOG = logging.getLogger(__name__)
FASTEST_AV1_PRESET = 8
"""From 9 on SVT-AV1 (4.1) leaves out changes of flat pictures: a lamp that is lit for one picture is lost."""
_MICROSECONDS = Fraction(1, 1_000_000)

SealedCodec = Literal["av1", "hevc", "h264", "ffv1"]


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How one mode is coded. But for one without B-frames or look-ahead, and key frames on demand only."""

    encoder: str
    crf: float
    preset: str
    options: Callable[[float, str, int], dict[str, str]]


def _h264_options(crf: float, preset: str, threads: int) -> dict[str, str]:
    sliced = ":sliced-threads=1" if threads > 1 else ""
    parameters = f"keyint=infinite:scenecut=0:threads={threads}{sliced}"
    return {
        "preset": preset,
        "tune": "zerolatency",
        "crf": f"{crf:g}",
        "forced-idr": "1",
        "x264-params": parameters,
    }


def _hevc_options(crf: float, preset: str, threads: int) -> dict[str, str]:
    pools = "none" if threads == 1 else str(threads)
    parameters = f"log-level=none:info=0:keyint=-1:scenecut=0:frame-threads=1:pools={pools}"
    return {
        "preset": preset,
        "tune": "zerolatency",
        "crf": f"{crf:g}",
        "forced-idr": "1",
        "x265-params": parameters,
    }


def _av1_options(crf: float, preset: str, threads: int) -> dict[str, str]:
    return _svt_options("pred-struct=1:lookahead=0", crf, preset, threads)


def _unhurried_av1_options(crf: float, preset: str, threads: int) -> dict[str, str]:
    # Pictures are coded out of order, in groups of 16, and up to 46 are held back; with less look-ahead 29,
    # at up to a tenth more bits.
    return _svt_options("pred-struct=2:hierarchical-levels=4:lookahead=16", crf, preset, threads)


def _svt_options(order: str, crf: float, preset: str, threads: int) -> dict[str, str]:
    if not preset.isdecimal() or int(preset) > FASTEST_AV1_PRESET:
        message = f"sealed av1: preset: expected 0 to {FASTEST_AV1_PRESET}, got {preset!r}"
        raise UsageError(message)
    # SVT-AV1 writes to stderr past libav's log, and reads this when an encoder opens.
    os.environ.setdefault("SVT_LOG", "1")
    parameters = f"{order}:scd=0:keyint=-1:lp={threads}"
    return {"preset": preset, "crf": f"{crf:g}", "svtav1-params": parameters}


def _ffv1_options(_crf: float, _preset: str, _threads: int) -> dict[str, str]:
    return {"level": "3", "slicecrc": "1", "slices": "4", "g": "1"}


_RECIPES: dict[SealedCodec, _Recipe] = {
    "h264": _Recipe("libx264", 20, "veryfast", _h264_options),
    "hevc": _Recipe("libx265", 22, "ultrafast", _hevc_options),
    "av1": _Recipe("libsvtav1", 30, str(FASTEST_AV1_PRESET), _av1_options),
    "ffv1": _Recipe("ffv1", 0, "", _ffv1_options),
}
_UNHURRIED_AV1 = _Recipe("libsvtav1", 30, "6", _unhurried_av1_options)


class SealedEncoder:
    """One picture in, one packet out, at once; after a forced key frame nothing before it is needed.

    One that was opened with ``unhurried`` gives the packets later, and takes no key frame but the first.

    Attributes:
        stream: what a decoder needs; the same for the life of the encoder.
    """

    stream: SealedStream

    def __init__(
        self, mode: SealedCodec, context: VideoCodecContext, stream: SealedStream, source: VideoFrame
    ) -> None:
        """Take an open encoder. Use ``open_sealed_encoder``."""
        self.stream = stream
        self._mode = mode
        self._context = context
        self._accepts = picture_shape(source)
        self._frame = VideoFrame(context.width, context.height, context.pix_fmt or "")
        self._last_us: int | None = None

    def accepts(self, picture: VideoFrame) -> bool:
        """Whether the picture has the size, format and range of the first one; else open another encoder."""
        return picture_shape(picture) == self._accepts

    def encode(
        self, picture: VideoFrame, force_key: bool = False, *, time_us: int | None = None
    ) -> list[SealedPacket]:
        """Code one picture without touching it.

        Args:
            picture: decoded picture in the format this encoder was opened for.
            force_key: begin a new segment here.
            time_us: presentation time; None takes the picture's own.

        Raises:
            UsageError: the picture has another size or format, or its time does not rise.
            MediaError: the encoder fails.
        """
        if not self.accepts(picture):
            message = f"sealed {self._mode}: opened for {self._accepts}, got {picture_shape(picture)}"
            raise UsageError(message)
        frame = self._frame
        (repack if self._mode == "ffv1" else to_yuv420p)(picture, frame)
        frame.pts = self._advance(_picture_us(picture) if time_us is None else time_us)
        frame.time_base = _MICROSECONDS
        frame.pict_type = PictureType.I if force_key else PictureType.NONE
        return self._drain(frame)

    def flush(self) -> list[SealedPacket]:
        """What is left in the encoder: nothing unless it is unhurried. It takes no picture afterwards."""
        return self._drain(None)

    def _advance(self, time_us: int) -> int:
        if self._last_us is not None and time_us <= self._last_us:
            message = f"sealed {self._mode}: time {time_us} us is not after {self._last_us} us"
            raise UsageError(message)
        self._last_us = time_us
        return time_us

    def _drain(self, frame: VideoFrame | None) -> list[SealedPacket]:
        try:
            packets = self._context.encode(frame)
        except av.FFmpegError as error:
            message = f"sealed {self._mode}: the encoder failed: {error}"
            raise MediaError(message) from error
        return [
            SealedPacket(
                stream_index=self.stream.index,
                is_key=packet.is_keyframe,
                pts=packet.pts,
                dts=packet.dts,
                duration=packet.duration or None,
                data=bytes(packet),
            )
            for packet in packets
        ]


def open_sealed_encoder(
    mode: str,
    picture: VideoFrame,
    *,
    rate: Fraction | int = 25,
    crf: float | None = None,
    preset: str | None = None,
    threads: int = 1,
    stream_index: int = 0,
    sample_aspect_ratio: Fraction = Fraction(0),
    unhurried: bool = False,
) -> SealedEncoder:
    """Open the encoder for pictures like ``picture``.

    Args:
        mode: ``av1``, ``hevc``, ``h264`` (8-bit 4:2:0, range as the camera's, odd sizes cropped by a row or
            column) or ``ffv1`` (every sample as the camera gave it).
        picture: the first picture; it is not coded.
        rate: nominal frames per second.
        crf: quality; the scale is the encoder's. Not used by ffv1.
        preset: speed, as the encoder names it. Not used by ffv1.
        threads: for the encoder.
        stream_index: of the sealed stream.
        sample_aspect_ratio: of one pixel; 0 if unknown.
        unhurried: for files: pictures may be coded out of order and packets come late. AV1 only; see
            ``codec.unhurried_encoder``.

    Raises:
        UsageError: unknown mode, a pixel format that ffv1 cannot hold, or options that the encoder refuses.
    """
    recipe, codec = _recipe(mode)
    if unhurried:
        if codec != "av1":
            message = f"sealed mode {mode!r}: only av1 can be coded out of order"
            raise UsageError(message)
        recipe = _UNHURRIED_AV1
    context = cast(VideoCodecContext, av.CodecContext.create(recipe.encoder, "w"))
    _describe_picture(context, picture, codec)
    context.time_base = _MICROSECONDS
    context.framerate = Fraction(rate)
    context.thread_count = threads
    context.thread_type = ThreadType.SLICE
    context.flags |= Flags.global_header | Flags.bitexact
    if sample_aspect_ratio:
        context.sample_aspect_ratio = sample_aspect_ratio
    context.options = recipe.options(
        recipe.crf if crf is None else crf, recipe.preset if preset is None else preset, threads
    )
    if codec == "ffv1" and (context.width % 8 or context.height % 8):
        # FFmpeg's FFV1 forgets a chroma row or column where slices of an odd picture meet off the grid.
        context.options |= {"slices": "1"}
    try:
        context.open()
    except (av.FFmpegError, ValueError) as error:
        message = f"sealed {mode}: {recipe.encoder} refuses {picture_shape(picture)}: {error}"
        raise UsageError(message) from error
    _LOG.debug("sealed %s encoder for %s: %s", mode, picture_shape(picture), context.options)
    stream = SealedStream(
        index=stream_index,
        kind=StreamKind.VIDEO,
        codec=codec,
        time_base=_MICROSECONDS,
        width=context.width,
        height=context.height,
        pixel_format=context.pix_fmt or "",
        sample_aspect_ratio=sample_aspect_ratio,
        frame_rate=Fraction(rate),
        color_range=context.color_range,
        color_primaries=context.color_primaries,
        color_transfer=context.color_trc,
        color_matrix=context.colorspace,
        extradata=context.extradata or b"",
    )
    return SealedEncoder(codec, context, stream, picture)


def _recipe(mode: str) -> tuple[_Recipe, SealedCodec]:
    for codec in get_args(SealedCodec):
        if codec == mode:
            return _RECIPES[codec], codec
    message = f"sealed mode {mode!r}: expected one of {', '.join(get_args(SealedCodec))}"
    raise UsageError(message)


def _describe_picture(context: VideoCodecContext, picture: VideoFrame, codec: SealedCodec) -> None:
    context.color_primaries = picture.color_primaries
    context.color_trc = picture.color_trc
    context.colorspace = picture.colorspace
    context.color_range = FULL_RANGE if is_full_range(picture) else picture.color_range
    if codec == "ffv1":
        context.width, context.height = picture.width, picture.height
        context.pix_fmt = lossless_format(picture.format.name)
        return
    context.width, context.height = picture.width & ~1, picture.height & ~1
    context.pix_fmt = "yuv420p"
    if picture.format.is_rgb:
        context.colorspace, context.color_range = 1, LIMITED_RANGE  # what to_yuv420p makes of RGB


def picture_shape(picture: VideoFrame) -> str:
    """Size, format and range in words: pictures that share it go through one encoder."""
    full = " full range" if is_full_range(picture) else ""
    return f"{picture.width}x{picture.height} {picture.format.name}{full}"


def _picture_us(picture: VideoFrame) -> int:
    if picture.pts is None or picture.time_base is None:
        message = "sealed layer: the picture has no time, and none was given"
        raise UsageError(message)
    return round(picture.pts * Fraction(picture.time_base) / _MICROSECONDS)
