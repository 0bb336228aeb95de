"""Which picture formats FFV1 can hold as they are, and the ones that only differ from those in packing."""

from __future__ import annotations

from types import MappingProxyType

import av
from av.video.frame import VideoFrame

from base.errors import UsageError
from codec.planes import copy_planes

FULL_RANGE = 2
"""libav's number for samples that use all code values (AVCOL_RANGE_JPEG)."""

LIMITED_RANGE = 1
"""libav's number for 16..235 and its like (AVCOL_RANGE_MPEG)."""

_NATIVE = frozenset(f.name for f in av.Codec("ffv1", "w").video_formats or ())

# Same samples, other order in memory: libav converts these without arithmetic on values.
# tests/codec/test_sealed_encoder.py holds each of them to that, both ways.
_REPACKED = MappingProxyType(
    {
        "nv12": "yuv420p",
        "nv21": "yuv420p",
        "nv16": "yuv422p",
        "nv24": "yuv444p",
        "nv42": "yuv444p",
        "yuyv422": "yuv422p",
        "uyvy422": "yuv422p",
        "yvyu422": "yuv422p",
        "nv20le": "yuv422p10le",
        "p010le": "yuv420p10le",
        "p012le": "yuv420p12le",
        "p016le": "yuv420p16le",
        "p210le": "yuv422p10le",
        "p410le": "yuv444p10le",
        "y210le": "yuv422p10le",
        "yuv420p10be": "yuv420p10le",
        "yuv422p10be": "yuv422p10le",
        "yuv444p10be": "yuv444p10le",
        "gray10be": "gray10le",
        "gray12be": "gray12le",
        "gray16be": "gray16le",
        "rgb24": "bgr0",
        "bgr24": "bgr0",
        "rgb0": "bgr0",
        "0rgb": "bgr0",
        "0bgr": "bgr0",
        "gbrp": "bgr0",
        "rgba": "bgra",
        "argb": "bgra",
        "abgr": "bgra",
        "gbrap": "bgra",
        "bgr48le": "rgb48le",
        "rgb48be": "rgb48le",
        "bgr48be": "rgb48le",
    }
)


def is_full_range(picture: VideoFrame) -> bool:
    """Whether the samples use all code values, by the picture's tag or by its format's name."""
    return picture.format.name.startswith("yuvj") or picture.color_range == FULL_RANGE


def unjay(name: str) -> str:
    """``yuv420p`` for ``yuvj420p``: the same samples; the range is told beside the format."""
    return "yuv" + name.removeprefix("yuvj") if name.startswith("yuvj") else name


def lossless_format(name: str) -> str:
    """The format in which FFV1 holds pictures of format ``name`` without loss.

    Raises:
        UsageError: there is none.
    """
    plain = unjay(name)
    if plain in _NATIVE:
        return plain
    if plain in _REPACKED:
        return _REPACKED[plain]
    message = (
        f"sealed ffv1: pixel format {name} cannot be stored without loss; seal this camera with copy or hevc"
    )
    raise UsageError(message)


def repack(picture: VideoFrame, target: VideoFrame) -> None:
    """Copy a picture into ``target``, whose format came from ``lossless_format`` of the picture's."""
    if unjay(picture.format.name) == target.format.name:
        copy_planes(picture, target)
        return
    # The same range on both sides, so that no value is scaled.
    same = {"src_color_range": FULL_RANGE, "dst_color_range": FULL_RANGE}
    copy_planes(picture.reformat(format=target.format.name, **same), target)


def to_yuv420p(picture: VideoFrame, target: VideoFrame) -> None:
    """Convert to 4:2:0 in the picture's own range, cropped to the target's even size."""
    name = unjay(picture.format.name)
    if name == "yuv420p":
        copy_planes(picture, target)
        return
    source_range = FULL_RANGE if is_full_range(picture) else LIMITED_RANGE
    if picture.format.is_rgb:
        converted = picture.reformat(
            format="yuv420p",
            dst_colorspace="ITU709",
            src_color_range=FULL_RANGE,
            dst_color_range=LIMITED_RANGE,
        )
    else:
        converted = picture.reformat(
            format="yuv420p", src_color_range=source_range, dst_color_range=source_range
        )
    copy_planes(converted, target)
