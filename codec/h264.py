"""Coding of the protected layer: constrained baseline H.264 that every player and browser shows."""

from __future__ import annotations

import functools
import logging
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Self

import av
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType, VideoFrame

from base.errors import MediaError, UsageError
from base.frames import ProtectedFrame
from codec.access_unit import AccessUnit
from codec.limits import DEFAULT_LIMITS, Limits
from codec.nal import NalType, nal_type, split_annexb
from codec.planes import plane_rows

_LOG = logging.getLogger(__name__)

# level_idc, macroblocks per picture, macroblocks per second (H.264, table A-1). Below 3.1 no
# receiver gains anything, and WebRTC's usual offer is constrained baseline 3.1 (42e01f).
_LEVELS = (
    (31, 3_600, 108_000),
    (32, 5_120, 216_000),
    (40, 8_192, 245_760),
    (42, 8_704, 522_240),
    (50, 22_080, 589_824),
    (51, 36_864, 983_040),
    (52, 36_864, 2_073_600),
    (60, 139_264, 4_177_920),
    (61, 139_264, 8_355_840),
    (62, 139_264, 16_711_680),
)


@dataclass(frozen=True, slots=True)
class ColourTags:
    """What the VUI says about colour, in the code points of ISO/IEC 23091-2 (H.273)."""

    primaries: int = 1  # BT.709
    transfer: int = 1
    matrix: int = 1
    full_range: bool = False


BT709_LIMITED = ColourTags()


def level_for(width: int, height: int, rate: Fraction) -> int:
    """The level_idc, at least 31 (3.1), that allows this picture size and rate.

    Raises:
        UsageError: no level of H.264 does.
    """
    macroblocks = -(-width // 16) * -(-height // 16)
    for level, per_picture, per_second in _LEVELS:
        if macroblocks <= per_picture and macroblocks * rate <= per_second:
            return level
    message = f"protected video: {width}x{height} at {float(rate):g} fps is above every H.264 level"
    raise UsageError(message)


FILE_LOOKAHEAD = 10
"""Pictures that the encoder of a file looks ahead: what stays is coded well, what soon goes costs less. At
equal quality of three fixed-camera clips that saved 11 to 28 % of the bits, and no time."""


class ProtectedEncoder:
    """One frame in, one access unit out, at once; with ``lookahead`` later.

    Key frames come when asked for and at the first frame only, each with SPS and PPS in
    front. The units hold no SEI: the sealer owns those.
    """

    def __init__(
        self,
        width: int,
        height: int,
        *,
        rate: Fraction | int = 25,
        crf: float = 23.0,
        max_bitrate_bps: int | None = None,
        buffer_ms: int = 1000,
        preset: str = "veryfast",
        threads: int = 1,
        colour: ColourTags = BT709_LIMITED,
        lookahead: int = 0,
        adaptive: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Open the encoder.

        Args:
            width: luma columns, even.
            height: luma rows, even.
            rate: nominal frames per second, for the level and rate control; frames may come at any pace.
            crf: x264's constant rate factor, 0 (best) to 51.
            max_bitrate_bps: bound on the rate over ``buffer_ms`` (VBV); None for quality alone.
            buffer_ms: length of the VBV buffer.
            preset: x264's preset.
            threads: above 1, pictures are cut into as many slices. With 2 cores at 720p veryfast, 2 slices
                shorten a frame from 14 to 10 ms at the same cost in CPU; the pipeline has other work for
                the second core, so 1 is the default.
            colour: tags for the VUI.
            lookahead: pictures that a unit may come after its own; 0 for whoever waits for it.
            adaptive: x264's adaptive quantisation, which spends more on what is flat. Of a protected picture
                that is what nobody looks at, unless the pixel path hides something there. At equal quality of
                what is sharp its bits were 97, 106 and 141 % on three fixed-camera clips.
            limits: bounds on the units.

        Raises:
            UsageError: a size or an option that H.264 or x264 does not allow.
        """
        if width <= 0 or height <= 0 or width % 2 or height % 2:
            message = f"protected video: expected even width and height, got {width}x{height}"
            raise UsageError(message)
        self._limits = limits
        self._lookahead = lookahead
        self._count = 0
        self._times_us: deque[int] = deque()  # of the frames that have no unit yet
        self._frame = VideoFrame(width, height, "yuv420p")
        level = level_for(width, height, Fraction(rate))
        options = _x264_options(level, crf, preset, threads, lookahead, adaptive=adaptive)
        if max_bitrate_bps is not None:
            options["maxrate"] = str(max_bitrate_bps)
            options["bufsize"] = str(max_bitrate_bps * buffer_ms // 1000)
        self._reopen = functools.partial(_open, width, height, Fraction(rate), colour, options)
        self._context: VideoCodecContext | None = self._reopen()

    def encode(self, frame: ProtectedFrame, force_key: bool = False) -> AccessUnit:
        """Code one frame, without lookahead; the unit carries the frame's time.

        Raises:
            UsageError: the frame has another size than the encoder, or the encoder is closed.
            MediaError: x264 fails.
        """
        units = self.push(frame, force_key)
        if len(units) != 1:
            message = f"protected video: x264 returned {len(units)} units for one frame"
            raise MediaError(message)
        return units[0]

    def push(self, frame: ProtectedFrame, force_key: bool = False) -> list[AccessUnit]:
        """Code one frame: units of this and of earlier ones, in order. Errors as of :meth:`encode`."""
        context = self._context
        if context is None:
            message = "protected video: the encoder is closed"
            raise UsageError(message)
        if (frame.width, frame.height) != (self._frame.width, self._frame.height):
            message = (
                f"protected video: expected {self._frame.width}x{self._frame.height}, "
                f"got {frame.width}x{frame.height}"
            )
            raise UsageError(message)
        for index, plane in enumerate((frame.luma_hw, frame.cb_hw, frame.cr_hw)):
            plane_rows(self._frame.planes[index], plane.shape[1])[:] = plane
        # x264 sees a plain count: source times may repeat or jump, and they travel beside it.
        self._frame.pts = self._count
        self._frame.time_base = context.time_base
        self._frame.pict_type = PictureType.I if force_key or not self._count else PictureType.NONE
        self._count += 1
        self._times_us.append(frame.time_us)
        return self._units(context, self._frame)

    def flush(self) -> list[AccessUnit]:
        """The units of all frames that have none yet; the next frame is a key frame then.

        Without lookahead there are none, and nothing changes.

        Raises:
            MediaError: x264 fails, or has left out frames.
        """
        if self._context is None or not self._lookahead or not self._count:
            return []
        units = self._units(self._context, None)
        if self._times_us:
            message = f"protected video: x264 left out {len(self._times_us)} frames"
            raise MediaError(message)
        self._context, self._count = self._reopen(), 0  # x264 takes nothing more once it is drained
        return units

    def _units(self, context: VideoCodecContext, frame: VideoFrame | None) -> list[AccessUnit]:
        try:
            packets = context.encode(frame)
        except av.FFmpegError as error:
            message = f"protected video: x264 failed: {error}"
            raise MediaError(message) from error
        return [self._unit(bytes(packet)) for packet in packets]

    def _unit(self, data: bytes) -> AccessUnit:
        nals = split_annexb(data, self._limits)
        # x264 signs its first picture with an SEI that lists its settings.
        kept = [nal for nal in nals if nal_type(nal) != NalType.SEI]
        return AccessUnit.from_nals(kept, self._times_us.popleft())

    def close(self) -> None:
        """Give the encoder's memory back, and units with it that were not flushed."""
        self._context = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _x264_options(
    level: int, crf: float, preset: str, threads: int, lookahead: int, *, adaptive: bool
) -> dict[str, str]:
    sliced = f":sliced-threads=1:slices={threads}" if threads > 1 else ""
    order = {"rc-lookahead": f"{lookahead}"} if lookahead else {"tune": "zerolatency"}
    return order | {
        "preset": preset,
        "profile": "baseline",
        "crf": f"{crf:g}",
        "forced-idr": "1",
        "x264-params": (
            f"level={level // 10}.{level % 10}:keyint=infinite:scenecut=0:bframes=0:repeat-headers=1:"
            f"threads={threads}:sync-lookahead=0:aq-mode={1 if adaptive else 0}{sliced}"
        ),
    }


def _open(
    width: int, height: int, rate: Fraction, colour: ColourTags, options: dict[str, str]
) -> VideoCodecContext:
    context = av.CodecContext.create("libx264", "w")
    context.width = width
    context.height = height
    context.pix_fmt = "yuv420p"
    context.time_base = 1 / rate
    context.framerate = rate
    context.color_primaries = colour.primaries
    context.color_trc = colour.transfer
    context.colorspace = colour.matrix
    context.color_range = 2 if colour.full_range else 1
    context.options = options
    try:
        context.open()
    except (av.FFmpegError, ValueError) as error:
        message = f"protected video: x264 refuses {width}x{height} with {options}: {error}"
        raise UsageError(message) from error
    _LOG.debug("protected encoder %dx%d at %s fps: %s", width, height, rate, options)
    return context
