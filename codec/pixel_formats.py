"""Which picture formats FFV1 can hold as they are, and which differ from those in packing only.

The moves are made with numpy: some of swscale's converters lose samples at odd widths and
at the borders of its slices (seen with p210le and yuyv422 in FFmpeg 8.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import av
import numpy as np
from av.video.frame import VideoFrame

from base.errors import UsageError
from codec.planes import copy_planes, plane_rows

FULL_RANGE = 2
"""libav's number for samples that use all code values (AVCOL_RANGE_JPEG)."""

LIMITED_RANGE = 1
"""libav's number for 16..235 and its like (AVCOL_RANGE_MPEG)."""

# FFmpeg's FFV1 drops chroma at the borders of slices where these are not 4 samples apart.
_NATIVE = frozenset(f.name for f in av.Codec("ffv1", "w").video_formats or ()) - {"yuv410p", "yuv411p"}


@dataclass(frozen=True, slots=True)
class _Move:
    """Every ``from_step``-th sample of a plane's rows becomes every ``to_step``-th of another's."""

    from_plane: int
    from_first: int
    from_step: int
    to_plane: int
    to_first: int = 0
    to_step: int = 1


@dataclass(frozen=True, slots=True)
class _Repacking:
    """How to bring one format into another one's memory layout: no sample changes its value.

    ``shift`` undoes formats that keep 10 or 12 bits in the upper end of 16.
    """

    target: str
    source_type: str
    target_type: str
    shift: int
    moves: tuple[_Move, ...]


def _semi_planar(target: str, *, swapped: bool = False, wide: bool = False, shift: int = 0) -> _Repacking:
    """Luma, then both chroma interleaved: nv12 and its relatives."""
    kind = "<u2" if wide else "u1"
    cb = int(swapped)
    moves = (_Move(0, 0, 1, 0), _Move(1, cb, 2, 1), _Move(1, 1 - cb, 2, 2))
    return _Repacking(target, kind, kind, shift, moves)


def _packed_422(
    target: str, luma: int, cb: int, cr: int, *, wide: bool = False, shift: int = 0
) -> _Repacking:
    """Two luma and both chroma samples in turn: yuyv422 and its relatives; positions within four samples."""
    kind = "<u2" if wide else "u1"
    moves = (_Move(0, luma, 2, 0), _Move(0, cb, 4, 1), _Move(0, cr, 4, 2))
    return _Repacking(target, kind, kind, shift, moves)


def _packed_rgb(target: str, channels: int, order: Iterable[int], kind: str = "u1") -> _Repacking:
    """Channels of each pixel side by side; ``order``: where those of ``target`` lie in the source."""
    positions = tuple(order)
    step = 3 if target == "rgb48le" else 4
    moves = (_Move(0, place, channels, 0, index, step) for index, place in enumerate(positions))
    return _Repacking(target, kind, "<u2" if kind != "u1" else "u1", 0, tuple(moves))


def _planar_rgb(target: str, planes: Iterable[int]) -> _Repacking:
    moves = (_Move(plane, 0, 1, 0, index, 4) for index, plane in enumerate(planes))
    return _Repacking(target, "u1", "u1", 0, tuple(moves))


def _big_endian(target: str, planes: int) -> _Repacking:
    moves = tuple(_Move(plane, 0, 1, plane) for plane in range(planes))
    return _Repacking(target, ">u2", "<u2", 0, moves)


_REPACKINGS: Mapping[str, _Repacking] = MappingProxyType(
    {
        "nv12": _semi_planar("yuv420p"),
        "nv21": _semi_planar("yuv420p", swapped=True),
        "nv16": _semi_planar("yuv422p"),
        "nv24": _semi_planar("yuv444p"),
        "nv42": _semi_planar("yuv444p", swapped=True),
        "nv20le": _semi_planar("yuv422p10le", wide=True),
        "p010le": _semi_planar("yuv420p10le", wide=True, shift=6),
        "p012le": _semi_planar("yuv420p12le", wide=True, shift=4),
        "p016le": _semi_planar("yuv420p16le", wide=True),
        "p210le": _semi_planar("yuv422p10le", wide=True, shift=6),
        "p410le": _semi_planar("yuv444p10le", wide=True, shift=6),
        "yuyv422": _packed_422("yuv422p", 0, 1, 3),
        "yvyu422": _packed_422("yuv422p", 0, 3, 1),
        "uyvy422": _packed_422("yuv422p", 1, 0, 2),
        "y210le": _packed_422("yuv422p10le", 0, 1, 3, wide=True, shift=6),
        "yuv420p10be": _big_endian("yuv420p10le", 3),
        "yuv422p10be": _big_endian("yuv422p10le", 3),
        "yuv444p10be": _big_endian("yuv444p10le", 3),
        "gray10be": _big_endian("gray10le", 1),
        "gray12be": _big_endian("gray12le", 1),
        "gray16be": _big_endian("gray16le", 1),
        "rgb24": _packed_rgb("bgr0", 3, (2, 1, 0)),
        "bgr24": _packed_rgb("bgr0", 3, (0, 1, 2)),
        "rgb0": _packed_rgb("bgr0", 4, (2, 1, 0)),
        "0rgb": _packed_rgb("bgr0", 4, (3, 2, 1)),
        "0bgr": _packed_rgb("bgr0", 4, (1, 2, 3)),
        "rgba": _packed_rgb("bgra", 4, (2, 1, 0, 3)),
        "argb": _packed_rgb("bgra", 4, (3, 2, 1, 0)),
        "abgr": _packed_rgb("bgra", 4, (1, 2, 3, 0)),
        "gbrp": _planar_rgb("bgr0", (1, 0, 2)),
        "gbrap": _planar_rgb("bgra", (1, 0, 2, 3)),
        "rgb48be": _packed_rgb("rgb48le", 3, (0, 1, 2), ">u2"),
        "bgr48le": _packed_rgb("rgb48le", 3, (2, 1, 0), "<u2"),
        "bgr48be": _packed_rgb("rgb48le", 3, (2, 1, 0), ">u2"),
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
    if plain in _REPACKINGS:
        return _REPACKINGS[plain].target
    message = (
        f"sealed ffv1: pixel format {name} cannot be stored without loss; seal this camera with copy or hevc"
    )
    raise UsageError(message)


def repack(picture: VideoFrame, target: VideoFrame) -> None:
    """Copy a picture into ``target``, whose format is ``lossless_format`` of the picture's, or crop it so."""
    name = unjay(picture.format.name)
    if name == target.format.name:
        copy_planes(picture, target)
        return
    repacking = _REPACKINGS[name]
    for move in repacking.moves:
        reads, writes = picture.planes[move.from_plane], target.planes[move.to_plane]
        source = plane_rows(reads, reads.line_size).view(repacking.source_type)
        samples = source[: writes.height, move.from_first :: move.from_step][:, : writes.width]
        to = plane_rows(writes, writes.line_size).view(repacking.target_type)
        to[:, move.to_first :: move.to_step][:, : writes.width] = (
            np.right_shift(samples, repacking.shift) if repacking.shift else samples
        )


def to_yuv420p(picture: VideoFrame, target: VideoFrame) -> None:
    """Convert to 8-bit 4:2:0 in the picture's own range (RGB: BT.709, limited), cropped to the target."""
    name = unjay(picture.format.name)
    if name == "yuv420p" or (name in _REPACKINGS and _REPACKINGS[name].target == "yuv420p"):
        repack(picture, target)
    elif picture.format.is_rgb:
        ranges = {"src_color_range": FULL_RANGE, "dst_color_range": LIMITED_RANGE}
        copy_planes(picture.reformat(format="yuv420p", dst_colorspace="ITU709", **ranges), target)
    else:
        own = FULL_RANGE if is_full_range(picture) else LIMITED_RANGE
        same = {"src_color_range": own, "dst_color_range": own}
        copy_planes(picture.reformat(format="yuv420p", **same), target)
