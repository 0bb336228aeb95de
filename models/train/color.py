"""RGB pictures to the planes of limited-range BT.601 4:2:0 video and back, differentiable."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_TO_YUV = (
    torch.tensor([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255.0
)
_OFFSET = torch.tensor([16.0, 128.0, 128.0]) / 255.0
_TO_RGB = torch.linalg.inv(_TO_YUV)


def rgb_to_planes(rgb: Tensor) -> tuple[Tensor, Tensor]:
    """RGB [B, 3, H, W] in 0..1 -> luma [B, 1, H, W], chroma [B, 2, H/2, W/2], both in 0..1 (ITU-R BT.601)."""
    yuv = torch.einsum("ij,bjhw->bihw", _TO_YUV, rgb) + _OFFSET[:, None, None]
    return yuv[:, :1], F.avg_pool2d(yuv[:, 1:], 2)


def planes_to_rgb(luma: Tensor, chroma: Tensor) -> Tensor:
    """Inverse of :func:`rgb_to_planes` up to the lost chroma detail; [B, 3, H, W], clamped to 0..1."""
    full = F.interpolate(chroma, scale_factor=2.0, mode="bilinear", align_corners=False)
    yuv = torch.cat([luma, full], 1) - _OFFSET[:, None, None]
    return torch.einsum("ij,bjhw->bihw", _TO_RGB, yuv).clamp(0, 1)
