from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.veilcam.cli import veilcam_inside


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_without_torch_training_names_the_extra(tmp_path: Path) -> None:
    ended = veilcam_inside("train", "protector", "--whatever", cwd=tmp_path)
    assert ended.exit_code == 1
    assert "veilcam[train]" in ended.err


def test_the_object_finder_is_converted_without_torch(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    ended = veilcam_inside("train", "objects", "--help", cwd=tmp_path)
    assert ended.exit_code == 0
    assert "--yolox" in ended.out


@pytest.mark.train
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_arguments_reach_the_training_code(tmp_path: Path) -> None:
    ended = veilcam_inside("train", "protector", "--help", cwd=tmp_path)
    assert ended.exit_code == 0
