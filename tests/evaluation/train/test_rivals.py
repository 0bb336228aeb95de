"""The published networks have the published sizes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the train extra (onnx) is not installed")

from evaluation.train.rivals import cyclegan_generator, cyclegan_graph, open_float, yolov3_graph


def test_cyclegan_generator_has_its_published_size_and_keeps_the_picture_size() -> None:
    graph, _ = cyclegan_graph()
    # junyanz/pytorch-CycleGAN-and-pix2pix prints 11.378 M, with norms that have no weights of their own.
    norms = 2 * (64 + 128 + 256 + 18 * 256 + 128 + 64)
    unused_biases = 128 + 64  # theirs: of the two transposed convolutions
    assert (graph.num_weights - norms + unused_biases) / 1e6 == pytest.approx(11.378, abs=0.001)
    session = open_float(cyclegan_generator(32, 64), 1)
    (drawn,) = session.run(None, {"picture": np.zeros((1, 3, 32, 64), np.float32)})
    assert drawn.shape == (1, 3, 32, 64)
    assert np.abs(drawn).max() <= 1


def test_yolov3_has_its_published_size() -> None:
    graph, heads = yolov3_graph()
    # ultralytics/yolov3 prints 61.9 M for 80 classes: weights, and two numbers per normed channel (here one).
    assert graph.num_weights / 1e6 == pytest.approx(61.92, abs=0.05)
    assert len(heads) == 3
