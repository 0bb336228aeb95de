"""Trained pixel-path networks to what the run-time loads: four ONNX graphs, safetensors and a card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn

from models.train.carded import write_carded
from models.train.export import graph_bytes
from models.train.pixel_networks import (
    REACH,
    Analyse,
    Hide,
    PixelNetworks,
    PixelShape,
    Restore,
    Reveal,
    on_sphere,
)

_SIZE = 128  # of the example picture; the graphs take any multiple of 16


def _unit(luma: Tensor, chroma: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes to 0..1."""
    return luma.float() / 255, chroma.float() / 255


def _bytes(planes: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    luma, chroma = ((plane * 255 + 0.5).to(torch.uint8) for plane in planes)
    return luma, chroma


class CellStem(nn.Module):
    """A 1x1 convolution on cells as strided convolutions on the planes: no reordering of samples.

    Takes samples of 0..255; the centring of `to_cells` is in the bias.
    """

    def __init__(self, weights: Tensor, bias: Tensor, cell: int) -> None:
        super().__init__()
        outputs, area, half = weights.shape[0], cell**2, cell // 2
        self.luma = nn.Conv2d(1, outputs, cell, cell)
        self.chroma = nn.Conv2d(2, outputs, half, half, bias=False)
        with torch.no_grad():
            self.luma.weight.copy_(weights[:, :area].reshape(outputs, 1, cell, cell) / 255)
            self.chroma.weight.copy_(weights[:, area:].reshape(outputs, 2, half, half) / 255)
            self.luma.bias.copy_(bias - 0.5 * weights.sum(1))

    def forward(self, luma: Tensor, chroma: Tensor) -> Tensor:
        """Luma [1, 1, H, W], chroma [1, 2, H/2, W/2], float samples of 0..255."""
        features: Tensor = self.luma(luma) + self.chroma(chroma)
        return features


def _flat(layer: nn.Module) -> Tensor:
    """Weights of a 1x1 convolution, [outputs, inputs]."""
    weight = layer.weight
    assert isinstance(weight, Tensor)  # noqa: S101  (for the type checker)
    return weight.detach()[:, :, 0, 0]


class AnalyseGraph(nn.Module):
    """uint8 planes of the clear and the protected picture -> float32 latents."""

    def __init__(self, net: Analyse, shape: PixelShape) -> None:
        super().__init__()
        first, direct = _flat(net.body[0]), _flat(net.direct)
        whole, lost = first[:, : shape.samples], first[:, shape.samples :]
        # Body and linear path look at x and x - c; both are linear in x and c.
        of_clear, of_protected = torch.cat([whole + lost, direct]), torch.cat([-lost, -direct])
        nothing = torch.zeros(len(direct))
        self.width = len(first)
        self.clear = CellStem(of_clear, torch.cat([net.body[0].bias.detach(), nothing]), shape.cell)
        self.protected = CellStem(of_protected, torch.zeros(len(of_protected)), shape.cell)
        self.rest = net.body[1:]

    def forward(self, luma: Tensor, chroma: Tensor, drawn_luma: Tensor, drawn_chroma: Tensor) -> Tensor:
        """Luma [1, 1, H, W] and chroma [1, 2, H/2, W/2] of both."""
        both = self.clear(luma.float(), chroma.float()) + self.protected(
            drawn_luma.float(), drawn_chroma.float()
        )
        return on_sphere(self.rest(both[:, : self.width]) + both[:, self.width :])


class HideGraph(nn.Module):
    """uint8 planes and float32 turned latents -> what to add to the samples, int8, by phase of the cell."""

    def __init__(self, net: Hide, shape: PixelShape) -> None:
        super().__init__()
        first = _flat(net.body[0])
        self.stem = CellStem(first[:, : shape.samples], net.body[0].bias.detach(), shape.cell)
        self.of_latents = nn.Conv2d(shape.channels, len(first), 1, bias=False)
        with torch.no_grad():
            self.of_latents.weight.copy_(first[:, shape.samples :, None, None])
        self.rest, self.pattern = net.body[1:], net.pattern

    def forward(self, luma: Tensor, chroma: Tensor, turned: Tensor) -> Tensor:
        """Luma [1, 1, H, W], chroma [1, 2, H/2, W/2], turned [1, C, H/cell, W/cell]."""
        features = self.stem(luma.float(), chroma.float()) + self.of_latents(turned)
        raw = self.rest(features) + self.pattern(turned)
        return torch.round(255 * REACH * torch.tanh(raw)).to(torch.int8)


class RevealGraph(nn.Module):
    """uint8 planes as received -> float32 turned latents."""

    def __init__(self, net: Reveal) -> None:
        super().__init__()
        self.net = net

    def forward(self, luma: Tensor, chroma: Tensor) -> Tensor:
        """Luma [1, 1, H, W], chroma [1, 2, H/2, W/2]."""
        latents: Tensor = self.net(_unit(luma, chroma))
        return latents


class RestoreGraph(nn.Module):
    """uint8 planes as received, latents as revealed and turned back -> uint8 planes of the original."""

    def __init__(self, net: Restore) -> None:
        super().__init__()
        self.net = net

    def forward(
        self, luma: Tensor, chroma: Tensor, revealed: Tensor, latents: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Luma [1, 1, H, W], chroma [1, 2, H/2, W/2], the others [1, C, H/cell, W/cell]."""
        return _bytes(self.net(_unit(luma, chroma), revealed, latents))


def export_pixels(networks: PixelNetworks, setting: str, folder: Path, described: dict[str, Any]) -> None:
    """Write ``pixels-SETTING-v1``: graphs, safetensors and card; ``described`` goes on the card as it is."""
    name = f"pixels-{setting}-v1"
    networks = networks.eval()
    tensors = {key: value.detach().half().contiguous() for key, value in networks.state_dict().items()}
    # Graphs and safetensors hold the very same numbers.
    networks.load_state_dict({key: value.float() for key, value in tensors.items()})
    shape = networks.shape
    planes = (
        torch.zeros(1, 1, _SIZE, _SIZE, dtype=torch.uint8),
        torch.zeros(1, 2, _SIZE // 2, _SIZE // 2, dtype=torch.uint8),
    )
    latents = torch.zeros(1, shape.channels, _SIZE // shape.cell, _SIZE // shape.cell)
    pictures = {"luma": planes[0], "chroma": planes[1]}
    drawn = {"drawn_luma": planes[0], "drawn_chroma": planes[1]}
    files = {
        "analyse": graph_bytes(AnalyseGraph(networks.analyse, shape), {**pictures, **drawn}, ["latents"]),
        "hide": graph_bytes(HideGraph(networks.hide, shape), {**pictures, "turned": latents}, ["change"]),
        "reveal": graph_bytes(RevealGraph(networks.reveal), pictures, ["latents"]),
        "restore": graph_bytes(
            RestoreGraph(networks.restore),
            {**pictures, "revealed": latents, "latents": latents},
            ["clear_luma", "clear_chroma"],
        ),
    }
    network = {
        "setting": setting,
        "channels": shape.channels,
        "cell": shape.cell,
        "size_multiple": 16,
        "parameters": sum(value.numel() for value in tensors.values()),
    }
    named = {f"{name}-{part}.onnx": data for part, data in files.items()}
    named[f"{name}.safetensors"] = save_safetensors(tensors)
    write_carded(folder, name, network, named, described)
