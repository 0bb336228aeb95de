from __future__ import annotations

import time
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from analytics import DetectorConfig, load_detector
from analytics.weights import WEIGHTS, model_folder
from analytics.yolox_tiles import fit_native
from base.errors import Malformed, UsageError
from tests.analytics.clips import ASSETS, TINY_YOLOX, red_square

ANY_SIZE = DetectorConfig(any_size=True, threads=1)


@pytest.mark.parametrize("size_wh", [(64, 64), (160, 96), (70, 33), (20, 20), (321, 640)])
def test_a_tile_is_not_scaled_but_padded_to_multiples_of_32(size_wh: tuple[int, int]) -> None:
    box = fit_native(size_wh, None)
    assert (box.inner_width, box.inner_height) == size_wh
    assert box.input_width % 32 == box.input_height % 32 == 0
    assert 0 <= box.input_width - size_wh[0] < 32
    assert 0 <= box.input_height - size_wh[1] < 32


def test_max_side_scales_larger_pictures_down_and_no_others() -> None:
    assert fit_native((1280, 720), 640).input_width == 640
    assert fit_native((1280, 720), 640).inner_height == 360
    assert fit_native((640, 360), 640) == fit_native((640, 360), None)
    assert fit_native((9000, 10), None).input_width == 4096


def test_the_declared_size_gives_the_same_answer_as_the_fixed_detector() -> None:
    picture = red_square(16, 8)
    fixed = load_detector(TINY_YOLOX).detect(picture)
    assert load_detector(TINY_YOLOX, ANY_SIZE).detect(picture) == fixed
    assert len(fixed) > 0


def test_boxes_of_an_odd_tile_lie_where_the_object_is() -> None:
    # every cell in the red square is a box of class_1; the grey of the padding is one of class_0
    found = load_detector(TINY_YOLOX, ANY_SIZE).detect(red_square(64, 32, 32, (150, 90)))
    found = found.with_labels(["class_1"])
    assert found.boxes_xyxy.min(0).tolist()[:2] == [64, 32]
    assert found.boxes_xyxy.max(0).tolist()[2:] == [96, 64]


def test_with_max_side_boxes_come_back_in_pixels_of_the_tile() -> None:
    config = DetectorConfig(any_size=True, max_side=64)
    found = load_detector(TINY_YOLOX, config).detect(red_square(64, 64, 64, (128, 128)))
    assert found.boxes_xyxy.min(0).tolist()[:2] == [64, 64]
    assert found.boxes_xyxy.max(0).tolist()[2:] == [128, 128]


def test_a_model_with_another_head_is_refused() -> None:
    with pytest.raises(Malformed, match="expected one output"):
        load_detector(f"yolox:{ASSETS / 'not_yolox.onnx'}", ANY_SIZE)


def test_a_graph_that_needs_its_declared_size_is_refused(tmp_path: Path) -> None:
    model = onnx.load(str(ASSETS / "tiny_yolox.onnx"))
    shapes = next(item for item in model.graph.initializer if item.name == "flat")
    shapes.CopyFrom(numpy_helper.from_array(np.array([1, 7, 64], np.int64), "flat"))  # 64 cells of stride 8
    onnx.save(model, str(tmp_path / "fixed.onnx"))
    with pytest.raises(Malformed, match=r"does not run at|expected one output"):
        load_detector(f"yolox:{tmp_path / 'fixed.onnx'}", ANY_SIZE)


@pytest.mark.parametrize("content", [b"", b"not onnx at all", bytes(range(256))])
def test_a_file_that_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(content)
    with pytest.raises(Malformed, match=r"x\.onnx"):
        load_detector(f"yolox:{tmp_path / 'x.onnx'}", ANY_SIZE)


def test_no_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such model file"):
        load_detector(f"yolox:{tmp_path / 'none.onnx'}", ANY_SIZE)


@pytest.mark.parametrize("side", [31, 5000])
def test_max_side_is_bounded(side: int) -> None:
    with pytest.raises(UsageError, match="max_side"):
        DetectorConfig(max_side=side)


def published() -> Path:
    path = model_folder() / WEIGHTS["yolox"].file_name
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {path.parent} (VEILCAM_MODEL_DIR)")
    return path


def test_the_published_network_at_its_own_size_is_the_same_network() -> None:
    street = np.asarray(cv2.imread(str(ASSETS / "street.png")), np.uint8)
    picture = np.asarray(cv2.resize(street, (416, 416)), np.uint8)
    path = published()
    assert load_detector(f"yolox:{path}", ANY_SIZE).detect(picture) == load_detector(f"yolox:{path}").detect(
        picture
    )


def test_a_tile_costs_in_proportion_to_its_pixels() -> None:
    detector = load_detector(f"yolox:{published()}", ANY_SIZE)

    def cost_s(side: int) -> float:
        tile = np.full((side, side, 3), 90, np.uint8)
        detector.detect(tile)
        spent = []
        for _ in range(5):
            begun = time.thread_time()  # one thread: the run-time works on the caller's
            detector.detect(tile)
            spent.append(time.thread_time() - begun)
        return min(spent)

    # 16 times the pixels: at least 6 times the cost (letterboxing to 416 would make it the same)
    assert cost_s(512) > 6 * cost_s(128)
