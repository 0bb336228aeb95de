"""From any decoded picture to the planar 4:2:0 frame that the protector takes."""

from __future__ import annotations

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace

from base.errors import MediaError
from base.frames import ClearFrame, Plane
from codec.planes import plane_rows

_HD_LINES = 720  # from here on RGB is taken as BT.709, below as BT.601, as players guess it


def clear_frame(picture: av.VideoFrame, time_us: int) -> ClearFrame:
    """The picture as 8-bit 4:2:0 limited range, upright, cropped to even size.

    Views the decoder's memory where no conversion is needed; decoders do not write into a picture that
    they have handed out. A YUV picture keeps its matrix.

    Raises:
        MediaError: smaller than 2x2, or a pixel format that cannot be converted.
    """
    if picture.width < 2 or picture.height < 2:
        message = f"source: picture of {picture.width}x{picture.height} pixels, expected at least 2x2"
        raise MediaError(message)
    planes = [_plane(picture, index) for index in range(3)] if _is_plain(picture) else _converted(picture)
    turns = (round(picture.rotation / 90) % 4) if picture.rotation else 0
    if turns:
        planes = [np.rot90(plane, turns) for plane in planes]
    height, width = planes[0].shape[0] & ~1, planes[0].shape[1] & ~1
    luma_hw = np.ascontiguousarray(planes[0][:height, :width])
    chroma = [np.ascontiguousarray(plane[: height // 2, : width // 2]) for plane in planes[1:]]
    return ClearFrame(luma_hw, chroma[0], chroma[1], time_us)


def _is_plain(picture: av.VideoFrame) -> bool:
    return picture.format.name == "yuv420p" and picture.color_range != ColorRange.JPEG


def _plane(picture: av.VideoFrame, index: int) -> Plane:
    plane = picture.planes[index]
    return plane_rows(plane, plane.width)


def _converted(picture: av.VideoFrame) -> list[Plane]:
    matrix = None
    if picture.format.is_rgb:
        matrix = Colorspace.ITU709 if picture.height >= _HD_LINES else Colorspace.ITU601
    full = picture.color_range == ColorRange.JPEG or picture.format.name.startswith("yuvj")
    try:
        converted = picture.reformat(
            format="yuv420p",
            dst_colorspace=matrix,
            src_color_range=ColorRange.JPEG if full or picture.format.is_rgb else ColorRange.MPEG,
            dst_color_range=ColorRange.MPEG,
        )
    except (av.error.FFmpegError, ValueError) as error:
        message = f"source: cannot convert pixel format {picture.format.name} to yuv420p"
        raise MediaError(message) from error
    return [_plane(converted, index) for index in range(3)]
