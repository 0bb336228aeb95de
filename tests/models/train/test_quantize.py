from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the train extra")
pytest.importorskip("onnx", reason="needs the train extra")

from base.frames import ClearFrame
from models import load_protector, read_card
from models.card import WEIGHTS, read_weights
from models.protector import CARD, GATES_GRAPH, GATES_INT8_GRAPH
from models.session import BACKEND_VARIABLE
from models.train.quantize import Parity, main, parity, planes_of, quantized_gates

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight pictures with shapes of many sizes."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(1)
    for index in range(8):
        small = rng.integers(0, 256, (3 << index // 2, 4 << index // 2, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{index}.png"), cv2.resize(small, (512, 384)))
    return folder


def test_a_graph_agrees_with_itself(pictures: Path) -> None:
    graph = read_weights(read_card(WEIGHTS / CARD), GATES_GRAPH)
    assert parity(graph, graph, planes_of([pictures], 2)) == Parity(2 * 48 * 48, 0.0, 0.0, 0.0)


def test_the_8_bit_graph_is_smaller_and_nearly_as_shut(pictures: Path) -> None:
    graph = read_weights(read_card(WEIGHTS / CARD), GATES_GRAPH)
    narrow = quantized_gates(graph, planes_of([pictures], 8))
    assert len(narrow) < 0.7 * len(graph)
    agreed = parity(graph, narrow, planes_of([pictures], 8))
    assert 0 < agreed.share_differing < 0.2
    assert agreed.most_open < 1


def test_the_command_puts_the_graph_on_the_card_and_the_run_time_takes_it(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (CARD, GATES_GRAPH):
        shutil.copy(WEIGHTS / name, tmp_path / name)
    monkeypatch.setattr(Parity, "is_good", lambda _: True)  # toy pictures calibrate badly
    asked = ["--weights", str(tmp_path), "--pictures", str(pictures), "--check", str(pictures), "--num", "4"]
    assert main(asked) == 0
    assert GATES_INT8_GRAPH in read_card(tmp_path / CARD).files
    monkeypatch.setenv(BACKEND_VARIABLE, "onnxruntime-int8")
    protector = load_protector(folder=tmp_path, threads=1)
    grey = np.full((64, 64), 128, np.uint8)
    protector.protect(ClearFrame(grey, grey[::2, ::2], grey[::2, ::2], 0))
    assert protector.backend == "onnxruntime-int8"


def test_a_graph_that_opens_more_is_refused() -> None:
    assert Parity(1000, 0.02, 0.005, 0.3).is_good()
    assert not Parity(1000, 0.02, 0.02, 0.3).is_good()
    assert not Parity(1000, 0.02, 0.005, 0.6).is_good()
