"""Weights as they are shipped: ONNX in half precision, and a card with the hashes of all files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from base.files import atomic_write
from models.card import CARD_VERSION


def halved(data: bytes) -> bytes:
    """Store large weights in half precision; the run-time widens them once, when it loads the graph."""
    model = onnx.load_from_string(data)
    casts = []
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < 256:
            continue
        wide = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{wide}.half"))
        casts.append(helper.make_node("Cast", [f"{wide}.half"], [wide], to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def write_carded(
    folder: Path, name: str, network: dict[str, Any], files: dict[str, bytes], described: dict[str, Any]
) -> None:
    """Write ``files`` and a card with their hashes, ``NAME.json``, to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    hashes = {
        file: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for file, data in files.items()
    }
    card = {"card": CARD_VERSION, "name": name, "network": network, "files": hashes, **described}
    for file, data in files.items():
        atomic_write(folder / file, data)
    atomic_write(folder / f"{name}.json", json.dumps(card, indent=2).encode() + b"\n")
