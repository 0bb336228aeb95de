"""The attackers' networks; small enough for ten minutes of one thread."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class InverterNet(nn.Module):
    """U-Net (Ronneberger et al. 2015) on 4x4 phases; adds its answer to what it was given.

    Sides of the input must be multiples of 16. On phases it makes three times the steps in the same time,
    and protected faces have no detail that a cell of 4 pixels would miss.
    """

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        sizes = (width, 2 * width, 3 * width)
        self.enter = _block(48, sizes[0])
        self.down = nn.ModuleList(_block(a, b, 2) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(
            _block(deep + flat, flat) for deep, flat in zip(sizes[:0:-1], sizes[-2::-1], strict=True)
        )
        self.leave = nn.Conv2d(sizes[0], 48, 1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def forward(self, seen: Tensor) -> Tensor:
        """[B, 3, H, W] in 0..1 -> the clear picture as guessed, same shape."""
        features = [self.enter(F.pixel_unshuffle(seen - 0.5, 4))]
        for layer in self.down:
            features.append(layer(features[-1]))
        deep = features.pop()
        for layer in self.up:
            flat = features.pop()
            deep = layer(torch.cat([F.interpolate(deep, size=flat.shape[-2:], mode="nearest"), flat], 1))
        return seen + F.pixel_shuffle(self.leave(deep), 4)


class RecogniserNet(nn.Module):
    """A face to 128 numbers of length 1, in the space of the recogniser that it imitates."""

    def __init__(self, people: int, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(48, width, 3, 1, 1, bias=False),  # 4x4 phases: faces come at 28x28
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            _block(width, 2 * width),
            _block(2 * width, 4 * width, 2),
            _block(4 * width, 6 * width, 2),
        )
        self.head = nn.Linear(6 * width * 7 * 7, 128)
        self.classes = nn.Parameter(torch.randn(people, 128) * 0.1)

    def forward(self, faces: Tensor) -> Tensor:
        """[B, 3, 112, 112] in 0..1 -> unit vectors [B, 128]."""
        features = self.body(F.pixel_unshuffle(faces - 0.5, 4))
        return F.normalize(self.head(F.dropout(features.flatten(1), 0.2, self.training)))

    def person_logits(self, vectors: Tensor) -> Tensor:
        """Cosines with every person known in training, sharpened: [B, people]."""
        return 16 * vectors @ F.normalize(self.classes).T
