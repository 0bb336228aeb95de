from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the train extra")

import onnxruntime  # noqa: E402

from base.errors import UsageError  # noqa: E402
from models.card import read_card, read_weights  # noqa: E402
from models.object_finder import CARD, FINDER_GRAPH, ObjectFinder, read_object_finder  # noqa: E402
from models.train.object_finder import NUM_KEPT, converted, main  # noqa: E402
from models.yolox_head import STRIDES  # noqa: E402


def published(num_values: int = 85) -> bytes:
    """A graph with the outside of YOLOX's export: BGR planes of fixed size in, a raw head out.

    Its values are the mean of each cell's colours and the value's own number, so they can be told apart.
    """
    weights = [np.zeros((num_values, 3, stride, stride), np.float32) for stride in STRIDES]
    for kernel in weights:
        for channel in range(3):
            kernel[channel, channel] = 1 / (kernel.shape[2] * kernel.shape[3])
    bias = np.arange(num_values, dtype=np.float32)
    bias[:3] = 0
    helper = onnx.helper
    nodes, stored = [], [onnx.numpy_helper.from_array(bias, "bias")]
    stored.append(onnx.numpy_helper.from_array(np.array([1, num_values, -1]), "flat"))
    for stride, kernel in zip(STRIDES, weights, strict=True):
        stored.append(onnx.numpy_helper.from_array(kernel, f"w{stride}"))
        nodes += [
            helper.make_node("Conv", ["images", f"w{stride}", "bias"], [f"c{stride}"], strides=[stride] * 2),
            helper.make_node("Reshape", [f"c{stride}", "flat"], [f"f{stride}"]),
        ]
    nodes.append(helper.make_node("Concat", [f"f{stride}" for stride in STRIDES], ["all"], axis=2))
    nodes.append(helper.make_node("Transpose", ["all"], ["output"], perm=[0, 2, 1]))
    images = helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, [1, 3, 416, 416])
    output = helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, [1, 3549, num_values])
    graph = helper.make_graph(nodes, "yolox", [images], [output], stored)
    opset = [helper.make_opsetid("", 11)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


def _answer(graph: bytes, rgb_hwc: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (answer,) = session.run(None, {"rgb": rgb_hwc[None]})
    return np.asarray(answer)


def test_bytes_of_any_size_go_in_as_rgb_and_the_likeliest_classes_come_out() -> None:
    picture = np.zeros((64, 96, 3), np.uint8)
    picture[...] = (200, 100, 50)
    answer = _answer(converted(published()), picture)
    assert answer.shape == (1, (8 * 12) + (4 * 6) + (2 * 3), 7)
    # Blue first, as the published network wants it; then its own numbers 3 and 4, the last kept class and
    # truck, the last that bears a plate.
    np.testing.assert_allclose(
        answer[0], np.tile([50, 100, 200, 3, 4, 5 + NUM_KEPT - 1, 5 + 7], (126, 1)), rtol=1e-2
    )


def test_a_graph_with_another_head_is_refused() -> None:
    with pytest.raises(UsageError, match="expected one output of"):
        converted(published(num_values=21))


def test_what_is_written_is_carded_and_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "yolox.onnx"
    source.write_bytes(published())
    assert main(["--yolox", str(source), "--out", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == FINDER_GRAPH
    graph = read_weights(read_card(tmp_path / "out" / CARD), FINDER_GRAPH, tmp_path / "out")
    assert read_object_finder(tmp_path / "out") == graph
    ObjectFinder(graph, 64, 96, threads=1)


def test_the_shipped_graph_is_the_one_on_its_card_and_small() -> None:
    assert len(read_object_finder()) < 2_000_000
