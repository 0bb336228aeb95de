"""Haar-random rotations for training. The run-time draws its own from the segment key: codec/rotations.py."""

from __future__ import annotations

import torch
from torch import Tensor


def random_rotations(channels: int, height: int, width: int) -> Tensor:
    """One Haar-random orthogonal matrix per position, [height, width, channels, channels].

    QR of a Gaussian matrix, with the signs of R's diagonal moved into Q (Mezzadri 2007).
    """
    q, r = torch.linalg.qr(torch.randn(height * width, channels, channels))
    signed = q * torch.diagonal(r, dim1=-2, dim2=-1).sign()[:, None, :]
    return signed.reshape(height, width, channels, channels)


def rotated(latents: Tensor, rotations: Tensor) -> Tensor:
    """R z at every position of [B, C, h, w]."""
    return torch.einsum("hwij,bjhw->bihw", rotations, latents)


def rotated_back(latents: Tensor, rotations: Tensor) -> Tensor:
    """R^T z at every position of [B, C, h, w]."""
    return torch.einsum("hwji,bjhw->bihw", rotations, latents)
