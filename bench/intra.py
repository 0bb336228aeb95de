"""The codec that a still image goes through before a detector sees it."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

import av
import numpy as np

from analytics.interface import Image


def intra_round_trip(image_bgr_hwc: Image, crf: int = 23) -> tuple[Image, int]:
    """The image after libx264 as one key frame (baseline, veryfast, CRF), and its slices' bits."""
    height, width = image_bgr_hwc.shape[:2]
    even = np.pad(image_bgr_hwc, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = even.shape[1], even.shape[0], "yuv420p"
    encoder.framerate = Fraction(25)
    encoder.thread_count = 1
    encoder.options = {"crf": str(crf), "preset": "veryfast", "profile": "baseline", "tune": "zerolatency"}
    picture = av.VideoFrame.from_ndarray(even, format="bgr24").reformat(format="yuv420p")
    packets = [*encoder.encode(picture), *encoder.encode(None)]
    decoder = av.CodecContext.create("h264", "r")
    decoded = [frame for packet in packets for frame in decoder.decode(packet)] + decoder.decode(None)
    (frame,) = decoded
    back = frame.to_ndarray(format="bgr24")[:height, :width]
    return np.ascontiguousarray(back, np.uint8), sum(slice_bits(bytes(packet)) for packet in packets)


def slice_bits(annexb: bytes) -> int:
    """Bits of the picture itself: parameter sets and the encoder's banner are left out."""
    starts = [match.start() for match in re.finditer(b"\x00\x00\x01", annexb)] + [len(annexb)]
    return 8 * sum(end - start for start, end in pairwise(starts) if annexb[start + 3] & 31 in {1, 5})
