"""The four networks of the keyed pixel path, and how planes become blocks.

    z  = Analyse(x, c)           what c lacks of the clear picture, one point on a sphere per cell
    y  = c + Hide(c, R z)        c is the protected picture, R the segment's rotations (codec/rotations.py)
    z~ = Reveal(y)               after any codec
    x^ = Restore(y, z~, R^T z~)

All work on 4:2:0 planes cut into cells of ``cell`` luma pixels (chroma: half): the network never
sees a full-size feature map, which is what makes the hiding side affordable on a camera.

Every network has a linear path that starts as what an engineer would write down (block transform
coefficients of x - c, a spread pattern, its correlation, the inverse transform); the convolutions
beside it start near zero and learn the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

REACH = 0.25
"""Largest change that Hide makes to a sample, of 1."""


@dataclass(frozen=True, slots=True)
class PixelShape:
    """Size of one setting of the pixel path.

    Attributes:
        channels: latent values per cell.
        cell: luma pixels on a side that one latent point stands for.
        width: feature channels of the camera's side.
        wide: feature channels of the receiver's side.
        amplitude: of a transform coefficient that carries one latent at the start, of 1.
    """

    channels: int
    cell: int
    width: int
    wide: int
    amplitude: float

    @property
    def samples(self) -> int:
        """Samples of a cell: luma, cb, cr."""
        return self.cell**2 * 3 // 2


HIGH = PixelShape(channels=12, cell=8, width=40, wide=64, amplitude=16.0 / 255)
LOW = PixelShape(channels=8, cell=16, width=48, wide=64, amplitude=16.0 / 255)


def to_cells(luma: Tensor, chroma: Tensor, cell: int) -> Tensor:
    """Planes in 0..1 -> centred samples by cell, [B, 1.5 * cell**2, H/cell, W/cell]."""
    blocks = [F.pixel_unshuffle(luma, cell), F.pixel_unshuffle(chroma, cell // 2)]
    return torch.cat(blocks, 1) - 0.5


def from_cells(blocks: Tensor, cell: int) -> tuple[Tensor, Tensor]:
    """[B, 1.5 * cell**2, h, w] -> luma [B, 1, H, W] and chroma [B, 2, H/2, W/2]; no offset is added."""
    return F.pixel_shuffle(blocks[:, : cell**2], cell), F.pixel_shuffle(blocks[:, cell**2 :], cell // 2)


def _zigzag(cell: int) -> list[tuple[int, int]]:
    """Frequencies (row, column) from low to high."""
    return sorted(((r, c) for r in range(cell) for c in range(cell)), key=lambda f: (f[0] + f[1], f[0]))


def _waves(size: int, frequencies: list[tuple[int, int]]) -> Tensor:
    """Orthonormal DCT-II pictures [n, size * size]."""
    place = torch.arange(size) + 0.5

    def wave(frequency: int) -> Tensor:
        scale = math.sqrt((1 if frequency == 0 else 2) / size)
        return scale * torch.cos(math.pi * frequency * place / size)

    return torch.stack([torch.outer(wave(row), wave(column)).flatten() for row, column in frequencies])


def _detail_basis(shape: PixelShape) -> Tensor:
    """What latents 1.. stand for at first: low waves of luma, means of chroma; [channels - 1, samples]."""
    area = shape.cell**2
    basis = torch.zeros(shape.channels - 1, shape.samples)
    basis[:-2, :area] = _waves(shape.cell, _zigzag(shape.cell)[: shape.channels - 3])
    basis[-2, area : area * 5 // 4] = 2 / shape.cell
    basis[-1, area * 5 // 4 :] = 2 / shape.cell
    return basis


_CARRIERS = ((2, 1), (1, 2), (2, 2), (3, 1), (1, 3))
"""Frequencies (row, column) of H.264's 4x4 transform that carry latents at the start, the best first.

One latent is one coefficient, so the codec quantises it alone; these frequencies are neither where the
picture is strong, which would be read as latents, nor the very highest.
"""


def _pattern_basis(shape: PixelShape) -> Tensor:
    """Single coefficients of 4x4 luma blocks, spread evenly over the cell; [channels, samples]."""
    across = shape.cell // 4
    waves = _waves(4, list(_CARRIERS))
    basis = torch.zeros(shape.channels, shape.cell, shape.cell)
    for channel in range(shape.channels):
        block = channel * across**2 // shape.channels
        taken = sum(c * across**2 // shape.channels == block for c in range(channel))
        top, left = 4 * (block // across), 4 * (block % across)
        basis[channel, top : top + 4, left : left + 4] = waves[taken].reshape(4, 4)
    luma = basis.flatten(1)
    return torch.cat([luma, torch.zeros(shape.channels, shape.samples - luma.shape[1])], 1)


def _linear(weights: Tensor) -> nn.Conv2d:
    """A 1x1 convolution with the given [outputs, inputs] and no bias."""
    layer = nn.Conv2d(weights.shape[1], weights.shape[0], 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(weights[:, :, None, None])
    return layer


class Block(nn.Module):
    """Two 3x3 convolutions beside an identity (He et al. 2016), without normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        nn.init.zeros_(self.second.bias)
        with torch.no_grad():
            self.second.weight *= 0.3

    def forward(self, features: Tensor) -> Tensor:
        """[B, width, h, w] -> the same."""
        out: Tensor = features + self.second(F.relu(self.first(features)))
        return out


def _body(inputs: int, width: int, outputs: int, blocks: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(inputs, width, 1), nn.ReLU()]
    layers += [Block(width) for _ in range(blocks)]
    tail = nn.Conv2d(width, outputs, 1)
    nn.init.zeros_(tail.bias)
    with torch.no_grad():
        tail.weight *= 0.1
    return nn.Sequential(*layers, tail)


def on_sphere(points: Tensor) -> Tensor:
    """Scale every position of [B, C, h, w] to the sphere of radius sqrt(C)."""
    return points / (points.square().mean(1, keepdim=True) + 1e-6).sqrt()


GAIN = 5.0
"""Latent units per unit of a detail coefficient at the start."""


class Analyse(nn.Module):
    """Clear and protected planes -> latents on the sphere, [B, channels, H/cell, W/cell].

    Channel 0 starts as a constant and the others as detail beside it, so that the point's direction
    tells the size of the detail, which the sphere would otherwise take away.
    """

    def __init__(self, shape: PixelShape) -> None:
        super().__init__()
        self.cell = shape.cell
        self.body = _body(2 * shape.samples, shape.width, shape.channels, 2)
        detail = GAIN * _detail_basis(shape)
        self.direct = _linear(torch.cat([torch.zeros(1, shape.samples), detail]))
        with torch.no_grad():
            self.body[-1].bias[0] = 1.0

    def forward(self, clear: tuple[Tensor, Tensor], protected: tuple[Tensor, Tensor]) -> Tensor:
        """Luma [B, 1, H, W] and chroma [B, 2, H/2, W/2] of both, in 0..1."""
        cells = to_cells(*clear, self.cell)
        lost = cells - to_cells(*protected, self.cell)
        return on_sphere(self.body(torch.cat([cells, lost], 1)) + self.direct(lost))


class Hide(nn.Module):
    """Protected planes and rotated latents -> the planes that are published."""

    def __init__(self, shape: PixelShape) -> None:
        super().__init__()
        self.cell = shape.cell
        self.body = _body(shape.samples + shape.channels, shape.width, shape.samples, 2)
        self.pattern = _linear(shape.amplitude / REACH * _pattern_basis(shape).T)

    def forward(self, protected: tuple[Tensor, Tensor], rotated: Tensor) -> tuple[Tensor, Tensor]:
        """Planes in 0..1, latents [B, channels, H/cell, W/cell] -> planes in 0..1."""
        luma, chroma = from_cells(self.change(protected, rotated), self.cell)
        return (protected[0] + luma).clamp(0, 1), (protected[1] + chroma).clamp(0, 1)

    def change(self, protected: tuple[Tensor, Tensor], rotated: Tensor) -> Tensor:
        """What to add, [B, samples, H/cell, W/cell], within REACH."""
        raw = self.body(torch.cat([to_cells(*protected, self.cell), rotated], 1)) + self.pattern(rotated)
        change: Tensor = REACH * torch.tanh(raw)
        return change


class Reveal(nn.Module):
    """Received planes -> rotated latents, as well as the codec left them."""

    def __init__(self, shape: PixelShape) -> None:
        super().__init__()
        self.cell = shape.cell
        self.body = _body(shape.samples, shape.wide, shape.channels, 3)
        self.direct = _linear(_pattern_basis(shape) / shape.amplitude)

    def forward(self, received: tuple[Tensor, Tensor]) -> Tensor:
        """Planes in 0..1 -> [B, channels, H/cell, W/cell], not normalised: weak cells stay weak."""
        cells = to_cells(*received, self.cell)
        latents: Tensor = self.body(cells) + self.direct(cells)
        return latents


class Restore(nn.Module):
    """Received planes and latents turned back -> the clear picture; under a wrong key the protected one."""

    FINE = 4
    COARSE = 8

    def __init__(self, shape: PixelShape) -> None:
        super().__init__()
        self.cell = shape.cell
        samples, fine = self.COARSE**2 * 3 // 2, self.FINE**2 * 3 // 2
        self.pattern = _linear(shape.amplitude * _pattern_basis(shape).T)
        self.direct = _linear(_detail_basis(shape).T / GAIN)
        # Latents under a wrong key do not hang together from cell to cell; this learns to see that.
        self.trust = nn.Sequential(
            *(nn.Conv2d(shape.channels, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1)),
            *(nn.ReLU(), nn.Conv2d(24, 1, 1)),
        )
        nn.init.constant_(self.trust[-1].bias, 2.0)
        self.coarse = _body(2 * samples + shape.channels, shape.wide, samples, 5)
        self.fine = nn.Sequential(nn.Conv2d(2 * fine, 32, 3, padding=1), nn.ReLU(), Block(32), Block(32))
        self.tail = nn.Conv2d(32, fine, 1)
        nn.init.zeros_(self.tail.bias)
        with torch.no_grad():
            self.tail.weight *= 0.1

    def forward(
        self, received: tuple[Tensor, Tensor], revealed: Tensor, latents: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Planes in 0..1, latents as revealed and turned back, [B, channels, H/cell, W/cell] -> planes."""
        received = _added(received, from_cells(-self.pattern(revealed), self.cell))
        detail = (latents[:, 1:] / (latents[:, :1].abs() + 0.3)).clamp(-8, 8) * torch.sigmoid(
            self.trust(latents)
        )
        guess = _added(received, from_cells(self.direct(detail), self.cell))
        if self.cell > self.COARSE:
            latents = F.interpolate(latents, scale_factor=self.cell / self.COARSE, mode="nearest")
        inputs = [to_cells(*received, self.COARSE), to_cells(*guess, self.COARSE), latents]
        guess = _added(guess, from_cells(self.coarse(torch.cat(inputs, 1)), self.COARSE))
        pair = torch.cat([to_cells(*received, self.FINE), to_cells(*guess, self.FINE)], 1)
        luma, chroma = _added(guess, from_cells(self.tail(self.fine(pair)), self.FINE))
        return luma.clamp(0, 1), chroma.clamp(0, 1)


def _added(planes: tuple[Tensor, Tensor], change: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return planes[0] + change[0], planes[1] + change[1]


class PixelNetworks(nn.Module):
    """All four, for training and export."""

    def __init__(self, shape: PixelShape) -> None:
        super().__init__()
        self.shape = shape
        self.analyse = Analyse(shape)
        self.hide = Hide(shape)
        self.reveal = Reveal(shape)
        self.restore = Restore(shape)
