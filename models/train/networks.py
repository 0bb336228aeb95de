"""The protector's generator and its patch discriminator.

The generator works on planar 4:2:0 video as cameras deliver and codecs want it. A small
U-net looks at the frame and predicts, per 8x8 block, how coarse it has to become (the binary
logarithm of the smallest cell that may remain) and a coring threshold for each band of a
Laplacian pyramid. The coarseness shuts the gates of all finer bands, the thresholds flatten what
passes to a cartoon, and the frame is rebuilt from that. Detail behind a shut gate is gone by
construction, so the gate map is an auditable map of what was destroyed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.background import BACKGROUND_CORING

BANDS = 6
"""Detail bands; the coarsest picture left when all gates are shut has cells of 2**BANDS = 64 pixels."""

SIZE_MULTIPLE = 2**BANDS
"""Luma height and width must be multiples of this (chroma has half the size and the same depth)."""


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    """A convolution, padded where its kernel is odd."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 if kernel % 2 else 0)


class ConvNorm(nn.Sequential):
    """Convolution and batch norm; run-times fold the second into the first."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs, momentum=0.05),
        )


class Residual(nn.Module):
    """Two 3x3 convolutions beside an identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = ConvNorm(channels, channels)
        self.second = ConvNorm(channels, channels)
        nn.init.constant_(self.second[1].weight, 0.3)  # near the identity: deep nets start sooner

    def forward(self, features: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, C, h, w]."""
        return F.relu(features + self.second(F.relu(self.first(features))))


class GateNet(nn.Module):
    """Frame to per-block gates and coring thresholds; sees 1/8 to 1/64 of the resolution."""

    def __init__(self, widths: tuple[int, int, int, int]) -> None:
        super().__init__()
        c8, c16, c32, c64 = widths
        self.luma_stem = nn.Conv2d(1, c8, 8, 8)
        self.chroma_stem = nn.Conv2d(2, c8, 4, 4, bias=False)
        self.stem_norm = nn.BatchNorm2d(c8, momentum=0.05)
        self.block8 = Residual(c8)
        self.down16 = ConvNorm(c8, c16, 3, 2)
        self.block16 = Residual(c16)
        self.down32 = ConvNorm(c16, c32, 3, 2)
        self.block32 = nn.Sequential(*(Residual(c32) for _ in range(3)))
        self.down64 = ConvNorm(c32, c64, 3, 2)
        self.block64 = nn.Sequential(*(Residual(c64) for _ in range(4)))
        self.up32 = ConvNorm(c64, c32, 1)
        self.up16 = ConvNorm(c32, c16, 1)
        self.join16 = Residual(c16)
        self.up8 = ConvNorm(c16, c8, 1)
        self.join8 = ConvNorm(c8, c8)
        self.head = conv(c8, 1 + BANDS, 1)
        nn.init.zeros_(self.head.weight)
        with torch.no_grad():
            # Fine and hardly coring: learning what to destroy is quicker than finding the picture.
            self.head.bias.copy_(torch.tensor([0.5] + [-1.0] * BANDS))

    def forward(self, luma: Tensor, chroma: Tensor) -> Tensor:
        """Luma [B, 1, H, W] and chroma [B, 2, H/2, W/2] in 0..1 -> logits [B, 1 + BANDS, H/8, W/8]."""
        return self.from_centred(luma - 0.5, chroma - 0.5)

    def from_centred(self, luma: Tensor, chroma: Tensor) -> Tensor:
        """The same for planes around zero."""
        # [B, c8, H/8, W/8]
        f8 = self.block8(F.relu(self.stem_norm(self.luma_stem(luma) + self.chroma_stem(chroma))))
        f16 = self.block16(F.relu(self.down16(f8)))
        f32 = self.block32(F.relu(self.down32(f16)))
        f64 = self.block64(F.relu(self.down64(f32)))
        f32 = F.relu(f32 + _double(self.up32(f64)))
        f16 = self.join16(F.relu(f16 + _double(self.up16(f32))))
        f8 = F.relu(f8 + _double(self.up8(f16)))
        logits: Tensor = self.head(F.relu(self.join8(f8)))
        return logits


def _double(features: Tensor) -> Tensor:
    return F.interpolate(features, scale_factor=2.0, mode="nearest")


def coarseness_of(logits: Tensor) -> Tensor:
    """Logits -> wanted coarseness [B, 1, H/8, W/8] in octaves; from 0 (all detail) to BANDS, unbounded."""
    return logits[:, :1]


def shut_logits(coarseness: Tensor) -> Tensor:
    """Log-odds that each band must be shut, [B, BANDS, H/8, W/8] (ordinal regression, McCullagh 1980)."""
    band = torch.arange(BANDS, dtype=coarseness.dtype).reshape(1, BANDS, 1, 1)
    return 2 * (coarseness - band - 0.7)


def with_margin(coarseness: Tensor, margin: float) -> Tensor:
    """Coarseness on the safe side: ``margin`` octaves more wherever something was found.

    Background (0 and below) stays as it is; the step between is linear.
    """
    return coarseness + margin * coarseness.clamp(0, 1)


def gates_of(logits: Tensor, margin: float = 0.0) -> tuple[Tensor, Tensor]:
    """Logits -> gates in [0, 1] and coring thresholds in [0, 0.10]; each [B, BANDS, H/8, W/8].

    Band k is open up to a coarseness of k and shut from k + 1 on, so a band passes only where
    all coarser ones do.
    """
    gates = (_bands(logits.dtype) - with_margin(coarseness_of(logits), margin)).clamp(0, 1)
    thresholds = 0.10 * torch.sigmoid(1.5 * logits[:, 1:])
    return gates, thresholds


def _bands(dtype: torch.dtype) -> Tensor:
    """1 to BANDS: the coarseness from which on each band is shut, [1, BANDS, 1, 1]."""
    return torch.arange(1, BANDS + 1, dtype=dtype).reshape(1, BANDS, 1, 1)


def _up_to(small: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(small, size=like.shape[-2:], mode="bilinear", align_corners=False)


def gated_pyramid(plane: Tensor, gates: Tensor, thresholds: Tensor) -> Tensor:
    """Rebuild [B, C, h, w] from its Laplacian pyramid, each band cored and gated per block."""
    levels = [plane]
    for _ in range(gates.shape[1]):
        levels.append(F.avg_pool2d(levels[-1], 2))
    rebuilt = levels[-1]
    for band in range(gates.shape[1] - 1, -1, -1):
        fine = levels[band]
        detail = fine - _up_to(levels[band + 1], fine)
        gate = _up_to(gates[:, band : band + 1], fine)
        threshold = _up_to(thresholds[:, band : band + 1], fine)
        cored = detail - torch.maximum(torch.minimum(detail, threshold), -threshold)
        rebuilt = _up_to(rebuilt, fine) + gate * cored
    return rebuilt


@dataclass(frozen=True, slots=True)
class Protected:
    """What the generator gives: planes in 0..1 and the maps that led to them."""

    luma: Tensor
    chroma: Tensor
    coarseness: Tensor
    gates: Tensor
    thresholds: Tensor


class Generator(nn.Module):
    """Clear planes to protected planes."""

    def __init__(self, widths: tuple[int, int, int, int] = (24, 48, 64, 64)) -> None:
        super().__init__()
        self.gate_net = GateNet(widths)

    def forward(self, luma: Tensor, chroma: Tensor, floor: Tensor | None = None) -> Protected:
        """Luma [B, 1, H, W], chroma [B, 2, H/2, W/2], both in 0..1; H, W multiples of SIZE_MULTIPLE.

        ``floor`` [B, 1, H/8, W/8]: octaves that are lost whatever the network says.
        """
        logits = self.gate_net(luma, chroma)
        gates, thresholds = gates_of(logits)
        if floor is not None:
            gates = torch.minimum(gates, (_bands(gates.dtype) - floor).clamp(0, 1))
            thresholds = torch.maximum(thresholds, BACKGROUND_CORING / 255 * floor.clamp(0, 1))
        kept_luma = gated_pyramid(luma, gates, thresholds)
        # Chroma at half size: its band k is luma's band k + 1.
        kept_chroma = gated_pyramid(chroma, gates[:, 1:], thresholds[:, 1:])
        return Protected(
            kept_luma.clamp(0, 1), kept_chroma.clamp(0, 1), coarseness_of(logits), gates, thresholds
        )


class PatchDiscriminator(nn.Module):
    """Tells cartoon patches from generated ones; spectral norm keeps it gentle (Miyato et al. 2018)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for outputs in (width, 2 * width, 4 * width):
            layers += [nn.utils.spectral_norm(nn.Conv2d(inputs, outputs, 4, 2, 1)), nn.LeakyReLU(0.2)]
            inputs = outputs
        layers.append(nn.utils.spectral_norm(nn.Conv2d(inputs, 1, 3, 1, 1)))
        self.layers = nn.Sequential(*layers)

    def forward(self, rgb: Tensor) -> Tensor:
        """RGB [B, 3, H, W] in 0..1 -> patch scores [B, 1, H/8, W/8]; positive means cartoon."""
        scores: Tensor = self.layers(rgb - 0.5)
        return scores
