"""``veilcam train quantize``: the gate network in 8-bit integers beside the float one, if it hides as much.

Static post-training quantisation (Jacob et al., CVPR 2018): activations to unsigned, weights to signed
bytes per output channel, with ranges from calibration pictures. The first and the last convolution stay
float: the one sees raw samples, the other's answer is the gates. The graph is written only when it agrees
with the float one on pictures that were not used for calibration.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from base.errors import UsageError
from base.files import atomic_write
from models.card import read_card, read_weights
from models.protector import CARD, GATES_GRAPH, GATES_INT8_GRAPH
from models.pyramid import GATE_ONE
from models.session import Array
from models.train.samples import pictures_in

Planes = tuple[Array, Array]
"""Luma [1, 1, H, W] and chroma [1, 2, H/2, W/2], H and W multiples of 64."""

DIFFERS_BY = GATE_ONE // 8
"""A block counts as different when its coarseness is off by more than this: an eighth of an octave."""


@dataclass(frozen=True, slots=True)
class Parity:
    """How two gate graphs agree, in octaves of coarseness per 8x8 block."""

    blocks: int
    share_differing: float  # by more than an eighth of an octave
    share_more_open: float  # likewise, but less coarse only
    most_open: float  # octaves that a block is less coarse at most

    def is_good(self) -> bool:
        """Whether the second may stand in for the first."""
        return self.share_more_open <= 0.01 and self.most_open <= 0.5


class _Reader(CalibrationDataReader):
    def __init__(self, pictures: Iterable[Planes]) -> None:
        self._pictures = iter(pictures)

    def get_next(self) -> dict[str, Array] | None:
        planes = next(self._pictures, None)
        return None if planes is None else {"luma": planes[0], "chroma": planes[1]}


def quantized_gates(graph: bytes, calibration: Iterable[Planes]) -> bytes:
    """The gates graph with its inner convolutions in 8-bit integers."""
    model = _with_float_weights(onnx.load_from_string(graph))
    convolutions = [node.name for node in model.graph.node if node.op_type == "Conv"]
    stems_and_head = [*convolutions[:2], convolutions[-1]]
    with tempfile.TemporaryDirectory() as folder:
        wide, narrow = Path(folder) / "wide.onnx", Path(folder) / "narrow.onnx"
        onnx.save(model, str(wide))
        quantize_static(
            str(wide),
            str(narrow),
            _Reader(calibration),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,  # without VNNI sums of two products must fit 16 bits
            op_types_to_quantize=["Conv"],
            nodes_to_exclude=stems_and_head,
        )
        return narrow.read_bytes()


def _with_float_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The exported graph stores weights in half precision behind casts; the quantiser wants them plain."""
    halves = {tensor.name: tensor for tensor in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type == "Cast" and node.input[0] in halves:
            tensor = halves[node.input[0]]
            wide = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(wide, node.output[0]))
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    return model


def parity(first: bytes, second: bytes, pictures: Iterable[Planes]) -> Parity:
    """Compare the gates of two graphs on pictures.

    Raises:
        UsageError: no picture.
    """
    sessions = [
        onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"]) for graph in (first, second)
    ]
    differences = []
    for luma, chroma in pictures:
        wanted, got = (
            session.run(["gates"], {"luma": luma, "chroma": chroma})[0].sum(axis=1, dtype=np.int32)
            for session in sessions
        )
        differences.append((got - wanted).ravel())  # positive: more open
    if not differences:
        raise UsageError("parity: expected at least one picture, got none")
    opened = np.concatenate(differences)
    return Parity(
        blocks=opened.size,
        share_differing=float((np.abs(opened) > DIFFERS_BY).mean()),
        share_more_open=float((opened > DIFFERS_BY).mean()),
        most_open=max(0.0, float(opened.max()) / GATE_ONE),
    )


def planes_of(folders: Sequence[Path], num: int, side: int = 384) -> Iterator[Planes]:
    """The middles of ``num`` pictures spread over the folders, as the network sees them."""
    found = [picture for folder in folders for picture in pictures_in(folder)]
    for path in found[:: max(1, len(found) // max(1, num))][:num]:
        bgr = cv2.imread(str(path))
        if bgr is None:
            continue
        scale = side / min(bgr.shape[:2])
        bgr = cv2.resize(bgr, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        top, left = (bgr.shape[0] - side) // 2, (bgr.shape[1] - side) // 2
        i420 = cv2.cvtColor(bgr[top : top + side, left : left + side], cv2.COLOR_BGR2YUV_I420)
        chroma = i420[side:].reshape(1, 2, side // 2, side // 2)
        yield np.ascontiguousarray(i420[None, None, :side]), np.ascontiguousarray(chroma)


def add_int8(folder: Path, calibration: Iterable[Planes], checked: Iterable[Planes]) -> Parity:
    """Write the 8-bit graph beside the float one and put it on the card.

    Raises:
        UsageError: it does not agree well enough; nothing is written.
    """
    card = read_card(folder / CARD)
    graph = read_weights(card, GATES_GRAPH, folder)
    narrow = quantized_gates(graph, calibration)
    agreed = parity(graph, narrow, checked)
    if not agreed.is_good():
        message = (
            f"int8 gates: {100 * agreed.share_more_open:.2f} % of the blocks are more open than in float, "
            f"by up to {agreed.most_open:.2f} octaves; expected at most 1 % and 0.5"
        )
        raise UsageError(message)
    described: dict[str, Any] = dict(card.described)
    entry = {"sha256": hashlib.sha256(narrow).hexdigest(), "bytes": len(narrow)}
    described["files"] = {**described["files"], GATES_INT8_GRAPH: entry}
    described["int8_parity"] = asdict(agreed)
    atomic_write(folder / GATES_INT8_GRAPH, narrow)
    atomic_write(folder / CARD, json.dumps(described, indent=2).encode() + b"\n")
    return agreed


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, quantise, compare, write; 0 when the graph is on the card."""
    parser = argparse.ArgumentParser(prog="veilcam train quantize", description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="folder with a protector's card")
    parser.add_argument("--pictures", type=Path, nargs="+", required=True, help="folders to calibrate with")
    parser.add_argument("--check", type=Path, nargs="+", required=True, help="folders of other pictures")
    parser.add_argument("--num", type=int, default=100, help="pictures for each of the two")
    parser.add_argument("--json", action="store_true", help="print the parity as JSON")
    parsed = parser.parse_args(arguments)
    agreed = add_int8(
        parsed.weights, planes_of(parsed.pictures, parsed.num), planes_of(parsed.check, parsed.num)
    )
    line = (
        f"{parsed.weights / GATES_INT8_GRAPH}: {100 * agreed.share_differing:.2f} % of {agreed.blocks} "
        "blocks differ by more than an eighth of an octave, "
        f"none is more open by more than {agreed.most_open:.2f}"
    )
    sys.stdout.write((json.dumps(asdict(agreed)) if parsed.json else line) + "\n")
    return 0
