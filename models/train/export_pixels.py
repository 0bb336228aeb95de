"""Trained pixel-path networks to what the run-time loads: four ONNX graphs, safetensors and a card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn

from models.train.export import graph_bytes, write_carded
from models.train.pixel_networks import Analyse, Hide, PixelNetworks, Restore, Reveal

_SIZE = 128  # of the example picture; the graphs take any multiple of 16


def _unit(luma: Tensor, chroma: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes to 0..1."""
    return luma.float() / 255, chroma.float() / 255


def _bytes(planes: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    luma, chroma = ((plane * 255 + 0.5).to(torch.uint8) for plane in planes)
    return luma, chroma


class AnalyseGraph(nn.Module):
    """uint8 planes of the clear and the protected picture -> float32 latents."""

    def __init__(self, net: Analyse) -> None:
        super().__init__()
        self.net = net

    def forward(self, luma: Tensor, chroma: Tensor, drawn_luma: Tensor, drawn_chroma: Tensor) -> Tensor:
        """Luma [1, 1, H, W] and chroma [1, 2, H/2, W/2] of both."""
        latents: Tensor = self.net(_unit(luma, chroma), _unit(drawn_luma, drawn_chroma))
        return latents


class HideGraph(nn.Module):
    """uint8 planes and float32 turned latents -> uint8 planes to publish."""

    def __init__(self, net: Hide) -> None:
        super().__init__()
        self.net = net

    def forward(self, luma: Tensor, chroma: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
        """Luma [1, 1, H, W], chroma [1, 2, H/2, W/2], turned [1, C, H/cell, W/cell]."""
        return _bytes(self.net(_unit(luma, chroma), turned))


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
        "analyse": graph_bytes(AnalyseGraph(networks.analyse), {**pictures, **drawn}, ["latents"]),
        "hide": graph_bytes(
            HideGraph(networks.hide), {**pictures, "turned": latents}, ["published_luma", "published_chroma"]
        ),
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
