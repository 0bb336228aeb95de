"""Trained generator to what the run-time loads: an ONNX graph, safetensors and a card with hashes."""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn

from models.pyramid import GATE_ONE
from models.train.carded import halved, write_carded
from models.train.networks import BANDS, SIZE_MULTIPLE, GateNet, Generator, gates_of

_OPSET = 17


class GatesGraph(nn.Module):
    """uint8 planes -> uint8 gates 0..GATE_ONE and thresholds in plane units, [1, BANDS, H/8, W/8]."""

    def __init__(self, net: GateNet, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.net = _taking_bytes(net)

    def forward(self, luma: Tensor, chroma: Tensor) -> tuple[Tensor, Tensor]:
        """Luma [1, 1, H, W], chroma [1, 2, H/2, W/2]."""
        gates, thresholds = gates_of(
            self.net.from_centred(luma.float() - 127.5, chroma.float() - 127.5), self.margin
        )
        return _to_bytes(gates * GATE_ONE), _to_bytes(thresholds * 255)


def _taking_bytes(net: GateNet) -> GateNet:
    """A copy whose stems expect samples of 0..255 less 127.5, which saves a pass over the picture."""
    copied = copy.deepcopy(net)
    with torch.no_grad():
        copied.luma_stem.weight /= 255
        copied.chroma_stem.weight /= 255
    return copied


def _to_bytes(values: Tensor) -> Tensor:
    return (values + 0.5).to(torch.uint8)


def graph_bytes(graph: nn.Module, inputs: dict[str, Tensor], outputs: list[str]) -> bytes:
    """ONNX of a module for inputs like these by name, with the last two dimensions of each free."""
    buffer = io.BytesIO()
    dynamic = {name: {2: f"{name}_height", 3: f"{name}_width"} for name in inputs}
    with warnings.catch_warnings():
        # The newer exporter unrolls the pyramid's sizes; the older one keeps them dynamic.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            graph.eval(),
            tuple(inputs.values()),
            buffer,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_axes=dynamic,
            opset_version=_OPSET,
            dynamo=False,
        )
    return halved(buffer.getvalue())


def _onnx(graph: nn.Module, outputs: list[str]) -> bytes:
    size = SIZE_MULTIPLE * 2
    luma = torch.zeros(1, 1, size, size, dtype=torch.uint8)
    chroma = torch.zeros(1, 2, size // 2, size // 2, dtype=torch.uint8)
    return graph_bytes(graph, {"luma": luma, "chroma": chroma}, outputs)


def export_protector(
    generator: Generator,
    folder: Path,
    described: dict[str, Any],
    *,
    name: str = "protector-v3",
    margin: float = 0.0,
) -> None:
    """Write graph, safetensors and card to ``folder``; ``described`` goes on the card as it is.

    ``margin`` is how many octaves coarser than the network asks sensitive blocks become: privacy
    against utility, after training. Expected keys of ``described``: ``training`` (settings,
    data, seconds), ``metrics``, ``licence``.
    """
    generator = generator.eval().to(memory_format=torch.contiguous_format)
    state = {key: value for key, value in generator.state_dict().items() if value.is_floating_point()}
    tensors = {key: value.detach().half().contiguous() for key, value in state.items()}
    # Graph and safetensors hold the very same numbers.
    generator.load_state_dict({key: value.float() for key, value in tensors.items()}, strict=False)
    files = {
        f"{name}-gates.onnx": _onnx(GatesGraph(generator.gate_net, margin), ["gates", "thresholds"]),
        f"{name}.safetensors": save_safetensors(tensors),
    }
    network = {
        "bands": BANDS,
        "margin_octaves": margin,
        "size_multiple": SIZE_MULTIPLE,
        "parameters": sum(value.numel() for value in tensors.values()),
    }
    write_carded(folder, name, network, files, described)
