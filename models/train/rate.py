"""What a picture costs in H.264: bits of its quantised block transform, differentiable."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 8
STEP = 9.0 / 255.0
"""Quantiser step at QP 23 (H.264 table 8-15: 0.625 at QP 0, doubled every 6), of a full range of 1."""


def _cosines() -> Tensor:
    """Orthonormal 8x8 DCT-II as convolution weights [63, 1, 8, 8]; without the mean, which is predicted."""
    place = torch.arange(BLOCK) + 0.5
    rows = torch.stack([torch.cos(math.pi * k * place / BLOCK) for k in range(BLOCK)])
    rows *= math.sqrt(2 / BLOCK)
    rows[0] /= math.sqrt(2)
    return torch.einsum("ai,bj->abij", rows, rows).reshape(64, 1, BLOCK, BLOCK)[1:].contiguous()


_BASIS = _cosines()


def coded_bits(plane: Tensor, offset_yx: tuple[int, int] = (0, 0), step: float = STEP) -> Tensor:
    """About how many bits per sample the planes [B, C, H, W] in 0..1 take.

    The entropy of a coefficient grows with the logarithm of its size over the quantiser's step and
    goes to zero below it. ``offset_yx`` moves the block grid, so that nothing is learnt about it.
    """
    top, left = offset_yx
    shifted = plane[..., top:, left:].flatten(0, 1)[:, None]
    coefficients = F.conv2d(shifted, _BASIS, stride=BLOCK)
    bits = 0.5 * torch.log2(1 + (coefficients / step) ** 2)
    return bits.sum(1).mean() / BLOCK**2
