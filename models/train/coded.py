"""A real x264 round trip inside a training step, with a straight-through gradient."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
import torch
from av.video.codeccontext import VideoCodecContext
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Coded:
    """What came back from the codec, and its price."""

    luma: Tensor
    chroma: Tensor
    bits_per_pixel: float


def x264_round_trip(luma: Tensor, chroma: Tensor, crf: float, preset: str = "veryfast") -> Coded:
    """Code every picture of a batch as a key frame and decode it again.

    Args:
        luma: [B, 1, H, W] in 0..1.
        chroma: [B, 2, H/2, W/2] in 0..1.
        crf: x264's constant rate factor.
        preset: x264's preset.

    Returns:
        The decoded planes; their gradient passes to the inputs as if nothing had happened
        (straight-through estimator, Bengio et al. 2013).
    """
    pictures = _to_pictures(luma.detach(), chroma.detach())
    encoder = VideoCodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = luma.shape[-1], luma.shape[-2], "yuv420p"
    encoder.time_base, encoder.framerate = Fraction(1, 25), Fraction(25)
    encoder.options = {
        "preset": preset,
        "tune": "zerolatency",
        "profile": "baseline",
        "crf": f"{crf:g}",
        "g": "1",
        "threads": "1",
    }
    decoder = VideoCodecContext.create("h264", "r")
    num_bytes, decoded = 0, []
    for picture in [*pictures, None]:
        for packet in encoder.encode(picture):
            num_bytes += packet.size
            decoded += decoder.decode(packet)
    decoded += decoder.decode(None)
    planes = [frame.to_ndarray() for frame in decoded]  # [H * 3 / 2, W]
    stacked = torch.from_numpy(np.stack(planes)).float() / 255
    height, width = luma.shape[-2:]
    back_luma = stacked[:, None, :height]
    back_chroma = stacked[:, height:].reshape(len(planes), 2, height // 2, width // 2)
    return Coded(
        luma + (back_luma - luma).detach(),
        chroma + (back_chroma - chroma).detach(),
        num_bytes * 8 / (len(planes) * height * width),
    )


def _to_pictures(luma: Tensor, chroma: Tensor) -> list[av.VideoFrame]:
    """Limited to 8 bits, as I420."""
    batch, _, height, width = luma.shape
    flat = torch.cat([luma.reshape(batch, height, width), chroma.reshape(batch, height // 2, width)], 1)
    samples = (flat * 255).round().clamp(0, 255).to(torch.uint8).numpy()
    pictures = []
    for index in range(batch):
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(samples[index]), format="yuv420p")
        picture.pts = index
        pictures.append(picture)
    return pictures
