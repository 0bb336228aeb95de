"""Small real clips for these tests."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

ASSETS = Path(__file__).parent / "assets"
TINY_YOLOX = f"yolox:{ASSETS / 'tiny_yolox.onnx'}"
CLOCK = Fraction(1, 1000)

Picture = npt.NDArray[np.uint8]


def red_square(left: int, top: int, side: int = 32, size_wh: tuple[int, int] = (64, 64)) -> Picture:
    """A black picture with one pure red square: one class_1 of tiny_yolox.onnx per cell in it."""
    picture = np.zeros((size_wh[1], size_wh[0], 3), np.uint8)
    picture[top : top + side, left : left + side, 2] = 255
    return picture


def write_clip(path: Path, pictures: Sequence[Picture], times_ms: Sequence[int], key_every: int = 4) -> None:
    """An H.264 file without B-frames, of any container that PyAV guesses from the name."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = pictures[0].shape[1], pictures[0].shape[0], "yuv444p"
        stream.codec_context.time_base = CLOCK
        stream.options = {"crf": "4", "bf": "0", "g": str(key_every), "tune": "zerolatency"}
        for picture, time_ms in zip(pictures, times_ms, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, format="bgr24")
            frame.pts, frame.time_base = time_ms, CLOCK
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def annexb_units(pictures: Sequence[Picture]) -> list[bytes]:
    """The pictures as H.264 access units in Annex-B, parameter sets before each key frame (every fourth)."""
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = pictures[0].shape[1], pictures[0].shape[0], "yuv420p"
    encoder.time_base = CLOCK
    encoder.thread_count = 1
    encoder.options = {"crf": "4", "bf": "0", "g": "4", "tune": "zerolatency", "profile": "baseline"}
    units = []
    for index, picture in enumerate(pictures):
        frame = av.VideoFrame.from_ndarray(picture, format="bgr24").reformat(format="yuv420p")
        frame.pts, frame.time_base = index, CLOCK
        units += [bytes(packet) for packet in encoder.encode(frame)]
    return units + [bytes(packet) for packet in encoder.encode(None)]
