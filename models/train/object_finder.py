"""``veilcam train objects``: YOLOX's published graph in the form that the run-time loads.

Nothing is learnt here. Bytes go in as the camera's picture is made, sides are free, and of the 80 classes
come the likeliest that is kept and the likeliest that bears a number plate.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from base.errors import UsageError
from models.object_finder import FINDER_GRAPH
from models.small_picture import MULTIPLE
from models.train.carded import halved, write_carded

NUM_KEPT = 9
"""The first of COCO's classes: person, bicycle, car, motorcycle, airplane, bus, train, truck, boat."""
PLATED = (2, 3, 5, 7)
"""Those with number plates: car, motorcycle, bus, truck."""
_NAME = "objects-v2"
_NUM_BOX_VALUES, _NUM_VALUES = 5, 85


def converted(published: bytes) -> bytes:
    """ONNX: ``rgb`` uint8 [1, h, w, 3] to ``objects`` [1, anchors, 7]; sides free, multiples of 32.

    Raises:
        UsageError: it is not the graph that YOLOX's export without decoding writes.
    """
    model = onnx.load_from_string(published)
    graph = model.graph
    shapes = [[side.dim_value for side in one.type.tensor_type.shape.dim] for one in graph.output]
    if len(graph.input) != 1 or len(shapes) != 1 or shapes[0][-1] != _NUM_VALUES:
        raise UsageError(f"YOLOX: expected one output of [1, anchors, {_NUM_VALUES}], got {shapes}")
    answer, picture = graph.output[0].name, graph.input[0].name
    first = [
        helper.make_node("Cast", ["rgb"], ["rgb.float"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["rgb.float"], ["rgb.planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Gather", ["rgb.planes", "bgr.order"], [picture], axis=1),
    ]
    last = [
        helper.make_node("Slice", [answer, "zero", "box.end", "last.axis"], ["boxes"]),
        helper.make_node("Slice", [answer, "box.end", "kept.end", "last.axis"], ["classes"]),
        helper.make_node("ReduceMax", ["classes"], ["likeliest"], axes=[2], keepdims=1),
        helper.make_node("Gather", [answer, "plated"], ["plated.classes"], axis=2),
        helper.make_node("ReduceMax", ["plated.classes"], ["likeliest.plated"], axes=[2], keepdims=1),
        helper.make_node("Concat", ["boxes", "likeliest", "likeliest.plated"], ["objects"], axis=2),
    ]
    numbers = {
        "bgr.order": [2, 1, 0],
        "zero": [0],
        "box.end": [_NUM_BOX_VALUES],
        "kept.end": [_NUM_BOX_VALUES + NUM_KEPT],
        "last.axis": [2],
        "plated": [_NUM_BOX_VALUES + index for index in PLATED],
    }
    graph.initializer.extend(
        numpy_helper.from_array(np.array(values, np.int64), name) for name, values in numbers.items()
    )
    nodes = [*first, *graph.node, *last]
    for field in (graph.node, graph.input, graph.output, graph.value_info):
        del field[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info("rgb", TensorProto.UINT8, [1, "height", "width", 3]))
    graph.output.append(helper.make_tensor_value_info("objects", TensorProto.FLOAT, [1, "anchors", 7]))
    return halved(model.SerializeToString())


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert, write graph and card; 0 when they are written."""
    parser = argparse.ArgumentParser(prog="veilcam train objects", description=__doc__)
    parser.add_argument("--yolox", type=Path, required=True, help="YOLOX-nano as ONNX, its head not decoded")
    parser.add_argument("--out", type=Path, required=True, help="folder for graph and card")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parsed = parser.parse_args(arguments)
    published = parsed.yolox.read_bytes()
    described = {
        "licence": "Apache-2.0, copyright Megvii (YOLOX); see NOTICE",
        "training": {
            "from": "YOLOX-nano, published weights, COCO train2017; nothing trained here",
            "published_sha256": hashlib.sha256(published).hexdigest(),
        },
        "metrics": {},
    }
    files = {FINDER_GRAPH: converted(published)}
    write_carded(parsed.out, _NAME, {"size_multiple": MULTIPLE}, files, described)
    result = {"out": str(parsed.out), "file": FINDER_GRAPH}
    sys.stdout.write((json.dumps(result) if parsed.json else str(parsed.out / FINDER_GRAPH)) + "\n")
    return 0
