"""The protector's generator and its patch discriminator.

The generator works on planar 4:2:0 video as cameras deliver and codecs want it. A small
U-net looks at the frame and predicts, per 8x8 block, a gate and a coring threshold for each
band of a Laplacian pyramid; the frame is rebuilt from what the gates let through, and a small
redraw network, which sees nothing but that, turns it into a cartoon. Detail behind a closed
gate is gone by construction, so the gate map is an auditable map of what was destroyed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BANDS = 6
"""Detail bands; the coarsest picture left when all gates are shut has cells of 2**BANDS = 64 pixels."""

SIZE_MULTIPLE = 2**BANDS
"""Luma height and width must be multiples of this (chroma has half the size and the same depth)."""

GATE_FLOOR = 0.04
"""Gates below this are exactly shut, above 1 minus this exactly open."""


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    """A padded convolution."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)


class Residual(nn.Module):
    """Two 3x3 convolutions beside an identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = conv(channels, channels)
        self.second = conv(channels, channels)

    def forward(self, features: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, C, h, w]."""
        return features + self.second(F.relu(self.first(features)))


class GateNet(nn.Module):
    """Frame to per-block gates and coring thresholds; sees 1/8 to 1/64 of the resolution."""

    def __init__(self, widths: tuple[int, int, int, int]) -> None:
        super().__init__()
        c8, c16, c32, c64 = widths
        self.luma_stem = nn.Conv2d(1, c8, 8, 8)
        self.chroma_stem = nn.Conv2d(2, c8, 4, 4, bias=False)
        self.block8 = Residual(c8)
        self.down16 = conv(c8, c16, 3, 2)
        self.block16 = Residual(c16)
        self.down32 = conv(c16, c32, 3, 2)
        self.block32 = nn.Sequential(*(Residual(c32) for _ in range(3)))
        self.down64 = conv(c32, c64, 3, 2)
        self.block64 = nn.Sequential(*(Residual(c64) for _ in range(4)))
        self.up32 = conv(c64, c32, 1)
        self.up16 = conv(c32, c16, 1)
        self.join16 = Residual(c16)
        self.up8 = conv(c16, c8, 1)
        self.join8 = conv(c8, c8)
        self.head = conv(c8, 2 * BANDS, 1)
        nn.init.zeros_(self.head.weight)
        with torch.no_grad():
            # Open and hardly coring: learning what to destroy is quicker than finding the picture.
            self.head.bias.copy_(torch.tensor([1.0] * BANDS + [-1.0] * BANDS))

    def forward(self, luma: Tensor, chroma: Tensor) -> Tensor:
        """Luma [B, 1, H, W] and chroma [B, 2, H/2, W/2] in 0..1 -> logits [B, 2 * BANDS, H/8, W/8]."""
        return self.from_centred(luma - 0.5, chroma - 0.5)

    def from_centred(self, luma: Tensor, chroma: Tensor) -> Tensor:
        """The same for planes around zero."""
        # [B, c8, H/8, W/8]
        f8 = self.block8(self.luma_stem(luma) + self.chroma_stem(chroma))
        f16 = self.block16(self.down16(f8))
        f32 = self.block32(self.down32(f16))
        f64 = self.block64(self.down64(f32))
        f32 = f32 + _double(self.up32(f64))
        f16 = self.join16(f16 + _double(self.up16(f32)))
        f8 = F.relu(f8 + _double(self.up8(f16)))
        logits: Tensor = self.head(F.relu(self.join8(f8)))
        return 3 * torch.tanh(logits / 3)  # bounded: a gate must stay able to change its mind


def _double(features: Tensor) -> Tensor:
    return F.interpolate(features, scale_factor=2.0, mode="nearest")


def gates_of(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Logits -> gates in [0, 1] and coring thresholds in [0, 0.10]; each [B, BANDS, H/8, W/8].

    Gates are stretched so that nearly shut is shut; the gradient is that of the unstretched
    sigmoid (straight-through), else a shut gate could never learn to open.
    """
    soft = torch.sigmoid(2 * logits[:, :BANDS])
    hard = ((soft - GATE_FLOOR) / (1 - 2 * GATE_FLOOR)).clamp(0, 1)
    gates = soft + (hard - soft).detach() if soft.requires_grad else hard
    thresholds = 0.10 * torch.sigmoid(1.5 * logits[:, BANDS:])
    return gates, thresholds


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


class Redraw(nn.Module):
    """Redraws what the gates left as a cartoon; has no other input, so it cannot leak more."""

    REACH = 0.12
    """Largest change of a sample, of 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.luma_stem = nn.Conv2d(1, width, 8, 4, 2)
        self.chroma_stem = nn.Conv2d(2, width, 4, 2, 1, bias=False)
        self.body = nn.Sequential(conv(width, width), nn.ReLU(), conv(width, width), nn.ReLU())
        # Kernels twice the stride overlap evenly: no checkerboard (Odena et al. 2016).
        self.luma_tail = nn.ConvTranspose2d(width, 1, 8, 4, 2)
        self.chroma_tail = nn.ConvTranspose2d(width, 2, 4, 2, 1)
        for tail in (self.luma_tail, self.chroma_tail):
            nn.init.normal_(tail.weight, std=1e-3)
            nn.init.zeros_(tail.bias)

    def forward(self, luma: Tensor, chroma: Tensor) -> tuple[Tensor, Tensor]:
        """Same shapes and range as the inputs: luma [B, 1, H, W], chroma [B, 2, H/2, W/2]."""
        features = self.features(luma - 0.5, chroma - 0.5)
        luma_change = self.REACH * torch.tanh(self.luma_tail(features))
        chroma_change = self.REACH * torch.tanh(self.chroma_tail(features))
        return luma + luma_change, chroma + chroma_change

    def features(self, luma: Tensor, chroma: Tensor) -> Tensor:
        """Planes around zero -> [B, width, H/4, W/4]."""
        features: Tensor = self.body(F.relu(self.luma_stem(luma) + self.chroma_stem(chroma)))
        return features


@dataclass(frozen=True, slots=True)
class Protected:
    """What the generator gives: planes in 0..1 and the maps that led to them."""

    luma: Tensor
    chroma: Tensor
    gate_logits: Tensor
    gates: Tensor


class Generator(nn.Module):
    """Clear planes to protected planes."""

    def __init__(self, widths: tuple[int, int, int, int] = (24, 48, 64, 64), redraw: int = 16) -> None:
        super().__init__()
        self.gate_net = GateNet(widths)
        self.redraw = Redraw(redraw)

    def forward(self, luma: Tensor, chroma: Tensor) -> Protected:
        """Luma [B, 1, H, W], chroma [B, 2, H/2, W/2], both in 0..1; H, W multiples of SIZE_MULTIPLE."""
        logits = self.gate_net(luma, chroma)
        gates, thresholds = gates_of(logits)
        kept_luma = gated_pyramid(luma, gates, thresholds)
        # Chroma at half size: its band k is luma's band k + 1.
        kept_chroma = gated_pyramid(chroma, gates[:, 1:], thresholds[:, 1:])
        drawn_luma, drawn_chroma = self.redraw(kept_luma, kept_chroma)
        return Protected(drawn_luma.clamp(0, 1), drawn_chroma.clamp(0, 1), logits, gates)


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
