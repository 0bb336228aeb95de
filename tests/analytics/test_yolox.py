from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics import DetectorConfig, load_detector
from analytics.yolox import YoloxDetector, decode_head
from base.errors import FormatError, Malformed, UsageError
from models.yolox_head import anchor_grid
from tests.analytics.clips import ASSETS, TINY_YOLOX, red_square

NAMES = ("a", "b", "c")


def test_anchors_go_stride_by_stride_and_row_by_row() -> None:
    grid_xy, stride = anchor_grid((96, 64))
    assert len(stride) == 12 * 8 + 6 * 4 + 3 * 2
    assert grid_xy[[0, 1, 12, 95, 96, 96 + 6, 96 + 24, -1]].tolist() == [
        [0, 0], [1, 0], [0, 1], [11, 7], [0, 0], [0, 1], [0, 0], [2, 1]
    ]  # fmt: skip
    assert sorted(set(stride.tolist())) == [8, 16, 32]


def test_one_anchor_decodes_by_hand() -> None:
    # cell (3, 2) of stride 8: centre ((0.5 + 3) * 8, (0.25 + 2) * 8) = (28, 18)
    # size (exp(ln 2) * 8, exp(0) * 8) = (16, 8)
    raw = np.array([[0.5, 0.25, math.log(2), 0, 0.8, 0.1, 0.5, 0.2]], np.float32)
    found = decode_head(raw, np.array([[3, 2]], np.float32), np.array([8], np.float32), NAMES, 0.1)
    assert found.boxes_xyxy.tolist() == [[20, 14, 36, 22]]
    assert found.labels == ("b",)
    assert found.scores[0] == pytest.approx(0.8 * 0.5)


def decode_plainly(
    raw: list[list[float]], width: int, height: int, min_score: float
) -> list[tuple[float, ...]]:
    """A second decoder: one anchor at a time, in plain Python."""
    found: list[tuple[float, ...]] = []
    anchor = 0
    for stride in (8, 16, 32):
        for row in range(height // stride):
            for column in range(width // stride):
                x, y, log_width, log_height, objectness, *classes = raw[anchor]
                anchor += 1
                best = max(classes)
                if objectness * best < min_score:
                    continue
                centre_x, centre_y = (x + column) * stride, (y + row) * stride
                half_width, half_height = math.exp(log_width) * stride / 2, math.exp(log_height) * stride / 2
                edges = (
                    centre_x - half_width,
                    centre_y - half_height,
                    centre_x + half_width,
                    centre_y + half_height,
                )
                found.append((*edges, objectness * best, classes.index(best)))
    assert anchor == len(raw)
    return found


def test_a_second_decoder_finds_the_same_boxes() -> None:
    random = np.random.default_rng(7)
    grid_xy, stride = anchor_grid((128, 96))
    raw = random.normal(0, 1, (len(stride), 5 + len(NAMES))).astype(np.float32)
    raw[:, 4:] = random.uniform(0, 1, raw[:, 4:].shape)
    expected = decode_plainly(raw.tolist(), 128, 96, 0.3)
    found = decode_head(raw, grid_xy, stride, NAMES, 0.3)
    assert len(found) == len(expected) > 20
    assert np.allclose(found.boxes_xyxy, [row[:4] for row in expected], atol=1e-3)
    assert np.allclose(found.scores, [row[4] for row in expected], atol=1e-6)
    assert found.class_ids.tolist() == [row[5] for row in expected]


def test_numbers_that_no_network_should_give_are_left_out() -> None:
    raw = np.ones((84, 8), np.float32)
    raw[0, 0], raw[1, 2], raw[2, 3], raw[3, 4] = np.nan, np.inf, 1e9, np.nan
    grid_xy, stride = anchor_grid((64, 64))
    assert len(decode_head(raw, grid_xy, stride, NAMES, 0.1)) == 80


def test_a_model_finds_exactly_the_cells_that_it_should() -> None:
    detector = load_detector(TINY_YOLOX, DetectorConfig(min_score=0.9))
    found = detector.detect(red_square(32, 0))
    cells = {
        (32 + x, y, 32 + x + side, y + side)
        for side in (8, 16, 32)
        for x in range(0, 32, side)
        for y in range(0, 32, side)
    }
    assert {tuple(box) for box in found.boxes_xyxy.tolist()} == cells
    assert set(found.labels) == {"class_1"}
    assert detector.class_names == ("class_0", "class_1")
    assert detector.name == "yolox:tiny_yolox.onnx"


def test_boxes_come_back_in_pixels_of_the_picture() -> None:
    detector = load_detector(TINY_YOLOX, DetectorConfig(min_score=0.9))
    picture = red_square(0, 0, side=320, size_wh=(640, 320))  # 10x the network's input, half as high
    wide = [box for box in detector.detect(picture).boxes_xyxy.tolist() if box[2] - box[0] > 300]
    assert wide == [[0.0, 0.0, 320.0, 320.0]]
    assert detector.detect(picture).boxes_xyxy.max() == 320.0


def test_channels_reach_the_network_as_blue_green_red() -> None:
    detector = load_detector(TINY_YOLOX, DetectorConfig(min_score=0.9))
    blue = red_square(0, 0)[:, :, ::-1].copy()
    assert set(detector.detect(blue).labels) == {"class_0"}


def test_an_empty_scene_gives_no_detections() -> None:
    assert len(load_detector(TINY_YOLOX).detect(np.zeros((48, 100, 3), np.uint8))) == 0


@pytest.mark.parametrize("shape", [(64, 64), (64, 64, 4), (0, 64, 3)])
def test_pictures_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"expected uint8 \[H, W, 3\] BGR, got uint8"):
        load_detector(TINY_YOLOX).detect(np.zeros(shape, np.uint8))


def test_a_model_with_another_head_is_refused_with_its_shape() -> None:
    with pytest.raises(
        Malformed, match=r"not_yolox.onnx: expected one output 1x84x\(5\+classes\), got \[1, 3, 64, 64\]"
    ):
        YoloxDetector(ASSETS / "not_yolox.onnx")


def test_a_missing_model_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.onnx: no such model file"):
        load_detector(f"yolox:{tmp_path / 'gone.onnx'}")


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_not_a_model(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("model") / "random.onnx"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        YoloxDetector(path)
