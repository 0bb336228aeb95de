"""Writes the two small ONNX files beside it (needs the ``onnx`` package; the tests themselves do not).

tiny_yolox.onnx has YOLOX's head over a 64x64 input, two classes, and no learned weights: per cell of stride
8, 16 and 32, objectness is the cell's mean of blue + green + red, class 0 its mean blue, class 1 its mean red
(all by 255), the centre is the middle of the cell and the size one cell. not_yolox.onnx gives its input back.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
SIDE, STRIDES, NUM_VALUES = 64, (8, 16, 32), 7


def tiny_yolox() -> onnx.ModelProto:
    weights = np.zeros((NUM_VALUES, 3, 1, 1), np.float32)  # BGR to (x, y, w, h, objectness, class 0, class 1)
    weights[4, :, 0, 0] = weights[5, 0, 0, 0] = weights[6, 2, 0, 0] = 1 / 255
    bias = np.array([0.5, 0.5, 0, 0, 0, 0, 0], np.float32)
    nodes, heads = [], []
    for stride in STRIDES:
        pooled, mixed, head = f"pooled{stride}", f"mixed{stride}", f"head{stride}"
        nodes += [
            helper.make_node(
                "AveragePool", ["images"], [pooled], kernel_shape=[stride] * 2, strides=[stride] * 2
            ),
            helper.make_node("Conv", [pooled, "weights", "bias"], [mixed]),
            helper.make_node("Reshape", [mixed, "flat"], [head]),
        ]
        heads.append(head)
    nodes += [
        helper.make_node("Concat", heads, ["joined"], axis=2),
        helper.make_node("Transpose", ["joined"], ["output"], perm=[0, 2, 1]),
    ]
    num_anchors = sum((SIDE // stride) ** 2 for stride in STRIDES)
    return build(
        nodes,
        [1, num_anchors, NUM_VALUES],
        [
            numpy_helper.from_array(weights, "weights"),
            numpy_helper.from_array(bias, "bias"),
            numpy_helper.from_array(np.array([1, NUM_VALUES, -1], np.int64), "flat"),
        ],
    )


def build(
    nodes: list[onnx.NodeProto], output_shape: list[int], constants: list[onnx.TensorProto]
) -> onnx.ModelProto:
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, output_shape)
    graph = helper.make_graph(nodes, "test", [images], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    onnx.save(tiny_yolox(), HERE / "tiny_yolox.onnx")
    same = helper.make_node("Identity", ["images"], ["output"])
    onnx.save(build([same], [1, 3, SIDE, SIDE], []), HERE / "not_yolox.onnx")
