"""Pictures and video as a receiver sees them: protected, through real x264 and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from analytics.interface import Image
from base.errors import MediaError
from base.frames import ClearFrame, ProtectedFrame
from codec.access_unit import AccessUnit
from codec.h264 import ProtectedEncoder
from codec.nal import START_CODE, is_picture_nal
from evaluation.pictures import from_video_frame, to_bgr, to_clear
from models import Protector, load_protector
from models.background import Background
from models.card import WEIGHTS
from models.strength import Strength

CRF = 23
SEGMENT_S = 2  # the product's group of pictures
REFRESH = 2  # `camera run`: a look for what must be hidden in every second picture

Transform = Callable[[Image], Image]


@dataclass(frozen=True, slots=True)
class CodedPicture:
    """A picture after the codec, and the bits of its slices."""

    image: Image
    bits: int


@dataclass(frozen=True, slots=True)
class CodedVideo:
    """Decoded 4:2:0 pictures of one clip, and the bits of all slices."""

    frames: tuple[ProtectedFrame, ...]
    bits: int


def code_picture(frame: ClearFrame | ProtectedFrame, crf: float = CRF) -> tuple[ProtectedFrame, int]:
    """One key frame of the product's encoder (constrained baseline, veryfast), decoded."""
    coded = code_video([frame], rate=25, crf=crf)
    return coded.frames[0], coded.bits


def code_video(
    frames: Iterable[ClearFrame | ProtectedFrame],
    *,
    rate: Fraction | int,
    crf: float = CRF,
    adaptive: bool | None = None,
) -> CodedVideo:
    """A whole clip through the product's encoder, a key frame every two seconds, and a decoder.

    Clear frames are coded in the same way: that is the bound that protected video is held against.

    Args:
        frames: pictures of one size.
        rate: of pictures.
        crf: x264's constant rate factor.
        adaptive: x264's adaptive quantisation. Unless told clear frames have it, as it is x264's default, and
            protected ones do not, as in the camera without the pixel path.

    Raises:
        MediaError: the decoder returns another number of pictures.
    """
    encoder: ProtectedEncoder | None = None
    decoder = av.CodecContext.create("h264", "r")
    decoded: list[ProtectedFrame] = []
    bits = count = 0
    group = max(1, round(SEGMENT_S * rate))
    for count, frame in enumerate(frames, 1):
        picture = ProtectedFrame(frame.luma_hw, frame.cb_hw, frame.cr_hw, frame.time_us)
        if encoder is None:
            adaptive = isinstance(frame, ClearFrame) if adaptive is None else adaptive
            size = picture.width, picture.height
            encoder = ProtectedEncoder(*size, rate=rate, crf=crf, threads=1, adaptive=adaptive)
        unit = encoder.encode(picture, force_key=(count - 1) % group == 0)
        bits += slice_bits(unit)
        decoded += [_protected(shown) for shown in decoder.decode(av.Packet(unit.annexb()))]
    decoded += [_protected(shown) for shown in decoder.decode(None)]
    if len(decoded) != count:
        raise MediaError(f"x264 round trip: {count} pictures went in, {len(decoded)} came out")
    return CodedVideo(tuple(decoded), bits)


def _protected(picture: av.VideoFrame) -> ProtectedFrame:
    clear = from_video_frame(picture)
    return ProtectedFrame(clear.luma_hw, clear.cb_hw, clear.cr_hw, clear.time_us)


def slice_bits(unit: AccessUnit) -> int:
    """Bits of the picture itself: parameter sets are left out."""
    return 8 * sum(len(nal) + len(START_CODE) for nal in unit.nals if is_picture_nal(nal))


class Camera:
    """A protector in the two ways that it is used: on pictures that stand alone, and on consecutive ones."""

    def __init__(
        self,
        weights: Path | None = None,
        *,
        threads: int = 1,
        crf: float = CRF,
        strength: Strength = Strength.STANDARD,
        background: Background = Background.COARSE,
    ) -> None:
        self._weights = weights
        self._threads = threads
        self.crf = crf
        self.strength = strength
        self.background = background
        self._still: Protector | None = None

    def protector(self, refresh: int = 1, *, hold: bool = False) -> Protector:
        """A fresh protector with no memory of earlier pictures."""
        return load_protector(
            folder=self._weights or WEIGHTS,
            threads=self._threads,
            refresh=refresh,
            hold=hold,
            strength=self.strength,
            background=self.background,
        )

    def with_strength(self, strength: Strength) -> Camera:
        """The same at another strength."""
        return self._like(strength, self.background)

    def with_background(self, background: Background) -> Camera:
        """The same with the background as told."""
        return self._like(self.strength, background)

    def _like(self, strength: Strength, background: Background) -> Camera:
        return Camera(
            self._weights, threads=self._threads, crf=self.crf, strength=strength, background=background
        )

    def drawn(self, image_bgr_hwc: Image) -> Image:
        """The protected picture before the codec."""
        if self._still is None:
            self._still = self.protector()
        height, width = image_bgr_hwc.shape[:2]
        return to_bgr(self._still.protect(to_clear(image_bgr_hwc)))[:height, :width]

    def still(self, image_bgr_hwc: Image, crf: float | None = None) -> CodedPicture:
        """Protected, coded as one key frame, decoded."""
        if self._still is None:
            self._still = self.protector()
        return _cut(self._still.protect(to_clear(image_bgr_hwc)), image_bgr_hwc, crf or self.crf)

    def clear_still(self, image_bgr_hwc: Image, crf: float | None = None) -> CodedPicture:
        """Not protected, coded in the same way."""
        return _cut(to_clear(image_bgr_hwc), image_bgr_hwc, crf or self.crf)

    def protect_video(self, frames: Iterable[ClearFrame]) -> Iterator[ProtectedFrame]:
        """Consecutive frames of one clip, as `camera run` protects them; not yet coded."""
        for _, drawn in self.beside(frames):
            yield drawn

    def beside(self, frames: Iterable[ClearFrame]) -> Iterator[tuple[ClearFrame, ProtectedFrame]]:
        """Consecutive frames of one clip, each with what `camera run` makes of it.

        Still blocks are held; all is drawn anew where a segment of two seconds begins, as their times say.
        """
        protector = self.protector(REFRESH, hold=True)
        segment = -1
        for frame in frames:
            now = frame.time_us // (SEGMENT_S * 1_000_000)
            yield frame, protector.protect(frame, renew=now != segment)
            segment = now

    def video(self, frames: Iterable[ClearFrame], rate: Fraction | int) -> CodedVideo:
        """Protected as a video, coded, decoded."""
        return code_video(self.protect_video(frames), rate=rate, crf=self.crf)

    def clear_video(self, frames: Iterable[ClearFrame], rate: Fraction | int) -> CodedVideo:
        """Not protected, coded in the same way."""
        return code_video(frames, rate=rate, crf=self.crf)


def _cut(frame: ClearFrame | ProtectedFrame, like: Image, crf: float) -> CodedPicture:
    shown, bits = code_picture(frame, crf)
    return CodedPicture(np.ascontiguousarray(to_bgr(shown)[: like.shape[0], : like.shape[1]]), bits)


def read_clip(path: Path, *, first: int = 0, count: int | None = None) -> tuple[list[ClearFrame], Fraction]:
    """Consecutive frames of a video file and its rate in pictures per second.

    Raises:
        MediaError: it cannot be decoded, or holds no picture there.
    """
    frames: list[ClearFrame] = []
    try:
        with av.open(str(path)) as container:
            rate = Fraction(container.streams.video[0].average_rate or 25)
            for index, picture in enumerate(container.decode(video=0)):
                if count is not None and index >= first + count:
                    break
                if index >= first:
                    frames.append(from_video_frame(picture, round(index * 1_000_000 / rate)))
    except (av.FFmpegError, IndexError) as error:
        raise MediaError(f"{path.name}: cannot be decoded: {error}") from error
    if not frames:
        raise MediaError(f"{path.name}: no picture at position {first}")
    return frames, rate


def bgr_frames(frames: Sequence[ClearFrame | ProtectedFrame]) -> list[Image]:
    """All frames as BGR pictures."""
    return [to_bgr(frame) for frame in frames]
