"""CycleGAN's generator and YOLOv3 as ONNX graphs of random weights, from their published architectures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Layers appended one after the other; every method takes and returns names of values."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._rng = np.random.default_rng(0)
        self.num_weights = 0

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401  (as ONNX has it)
        """One operator with one output."""
        output = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        """Random numbers."""
        values = self._rng.standard_normal(shape, np.float32) * np.float32(scale)
        self.num_weights += values.size
        return self.constant(values)

    def constant(self, values: np.ndarray[Any, Any]) -> str:
        """A fixed value."""
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, value: str, sizes: tuple[int, int], kernel: int, *, stride: int = 1, pad: int) -> str:
        """Convolution with bias from ``sizes[0]`` to ``sizes[1]`` channels."""
        scale = math.sqrt(2 / (sizes[0] * kernel * kernel))
        weight = self.weight(sizes[1], sizes[0], kernel, kernel, scale=scale)
        bias = self.weight(sizes[1], scale=0.01)
        return self.node("Conv", value, weight, bias, strides=[stride] * 2, pads=[pad] * 4)

    def finished(self, height: int, width: int, outputs: list[str]) -> bytes:
        """The whole graph: input ``picture`` [1, 3, H, W] float."""
        entry = helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, height, width])
        leaves = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self._nodes, "rival", [entry], leaves, self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        return bytes(model.SerializeToString())


def cyclegan_graph() -> tuple[Graph, str]:
    """Zhu et al. 2017, appendix: c7s1-64, d128, d256, R256 x 9, u128, u64, c7s1-3, reflection padding."""
    graph = Graph()

    def normed(value: str, channels: int, *, active: bool = True) -> str:
        scale, shift = graph.weight(channels), graph.weight(channels)
        value = graph.node("InstanceNormalization", value, scale, shift, epsilon=1e-5)
        return graph.node("Relu", value) if active else value

    def reflected(value: str, pad: int) -> str:
        pads = graph.constant(np.array([0, 0, pad, pad, 0, 0, pad, pad], np.int64))
        return graph.node("Pad", value, pads, mode="reflect")

    value = normed(graph.conv(reflected("picture", 3), (3, 64), 7, pad=0), 64)
    value = normed(graph.conv(value, (64, 128), 3, stride=2, pad=1), 128)
    value = normed(graph.conv(value, (128, 256), 3, stride=2, pad=1), 256)
    for _ in range(9):
        inner = normed(graph.conv(reflected(value, 1), (256, 256), 3, pad=0), 256)
        inner = normed(graph.conv(reflected(inner, 1), (256, 256), 3, pad=0), 256, active=False)
        value = graph.node("Add", value, inner)
    for wide, thin in ((256, 128), (128, 64)):
        weight = graph.weight(wide, thin, 3, 3, scale=math.sqrt(2 / (wide * 9)))
        value = graph.node(
            "ConvTranspose", value, weight, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]
        )
        value = normed(value, thin)
    return graph, graph.node("Tanh", graph.conv(reflected(value, 3), (64, 3), 7, pad=0))


def cyclegan_generator(height: int, width: int) -> bytes:
    """The 9-block generator for pictures of this size (multiples of 4)."""
    graph, output = cyclegan_graph()
    return graph.finished(height, width, [output])


def yolov3_graph() -> tuple[Graph, list[str]]:
    """Redmon and Farhadi 2018: Darknet-53 (1, 2, 8, 8, 4 residual blocks) and heads at strides 32, 16, 8."""
    graph = Graph()

    def layer(value: str, sizes: tuple[int, int], kernel: int, stride: int = 1) -> str:
        value = graph.conv(value, sizes, kernel, stride=stride, pad=kernel // 2)
        return graph.node("LeakyRelu", value, alpha=0.1)

    def five(value: str, entry: int, thin: int) -> str:
        value = layer(value, (entry, thin), 1)
        for _ in range(2):
            value = layer(layer(value, (thin, 2 * thin), 3), (2 * thin, thin), 1)
        return value

    value, channels = layer("picture", (3, 32), 3), 32
    routes: list[str] = []
    for blocks in (1, 2, 8, 8, 4):
        value = layer(value, (channels, 2 * channels), 3, 2)
        channels *= 2
        for _ in range(blocks):
            inner = layer(layer(value, (channels, channels // 2), 1), (channels // 2, channels), 3)
            value = graph.node("Add", value, inner)
        routes.append(value)
    outputs = []
    twice = graph.constant(np.array([1, 1, 2, 2], np.float32))
    value = five(value, 1024, 512)
    for thin, route in ((512, None), (256, routes[3]), (128, routes[2])):
        if route is not None:
            value = layer(value, (2 * thin, thin), 1)
            value = graph.node("Resize", value, "", twice, mode="nearest")
            value = five(graph.node("Concat", value, route, axis=1), 3 * thin, thin)
        outputs.append(graph.conv(layer(value, (thin, 2 * thin), 3), (2 * thin, 255), 1, pad=0))
    return graph, outputs


def yolov3(height: int, width: int) -> bytes:
    """The detector for pictures of this size (multiples of 32)."""
    graph, outputs = yolov3_graph()
    return graph.finished(height, width, outputs)


def open_float(graph: bytes, threads: int) -> Any:  # noqa: ANN401  (onnxruntime has no types)
    """An onnxruntime session on the CPU."""
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
