"""The data folder: every layout it promises to read, and what is wrong said plainly."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from base.errors import UsageError
from evaluation.data import DataFolder, digest


def picture(path: Path, width: int = 64, height: int = 48) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.full((height, width, 3), 90, np.uint8))


def test_an_empty_folder_offers_nothing_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    for found in (data.coco(), data.mot(), data.plates(), data.faces(), data.clips(), data.tracked()):
        assert len(found) == 0
    assert data.model("x.onnx") is None
    with pytest.raises(UsageError, match="no such folder"):
        DataFolder(tmp_path / "none")


def test_mot_wants_visible_pedestrians_and_ignores_the_rest(tmp_path: Path) -> None:
    sequence = tmp_path / "mot" / "S"
    picture(sequence / "img1" / "000001.jpg", 200, 200)
    (sequence / "gt").mkdir()
    (sequence / "gt" / "gt.txt").write_text(
        "1,1,10,20,30,80,1,1,1.0\n"  # a pedestrian
        "1,2,50,20,30,80,1,1,0.1\n"  # hidden
        "1,3,90,20,30,80,0,7,1.0\n"  # a sitting person: not considered
        "2,1,11,20,30,80,1,1,1.0\n"  # another frame
    )
    (frame,) = DataFolder(tmp_path).mot()
    assert frame.truth.boxes_xyxy.tolist() == [[10, 20, 40, 100]]
    assert frame.truth.ignored.tolist() == [[50, 20, 80, 100], [90, 20, 120, 100]]
    (tracked,) = DataFolder(tmp_path).tracked()
    assert (tracked.identity, tracked.frame, tracked.box_xywh) == ("S/1", 1, (10, 20, 30, 80))
    (sequence / "gt" / "gt.txt").write_text("1,1,a\n")
    with pytest.raises(UsageError, match="nine numbers"):
        DataFolder(tmp_path).mot()


def test_plates_are_read_and_bad_lines_named(tmp_path: Path) -> None:
    picture(tmp_path / "plates" / "eu" / "a.jpg")
    labels = tmp_path / "plates" / "eu" / "a.txt"
    labels.write_text("a.jpg\t1\t2\t30\t10\tAB 12\nnot a plate\n")
    (plate,) = DataFolder(tmp_path).plates()
    assert (plate.box_xywh, plate.text, plate.region) == ((1, 2, 30, 10), "AB 12", "eu")
    labels.write_text("a.jpg\tx\t2\t30\t10\tAB12\n")
    with pytest.raises(UsageError, match="file, x, y, w, h, text"):
        DataFolder(tmp_path).plates()


def test_the_digest_changes_with_any_byte_and_not_with_the_place(tmp_path: Path) -> None:
    for name in ("one", "two"):
        picture(tmp_path / name / "a.jpg")
    same = digest([tmp_path / "one"])
    assert digest([tmp_path / "two"]) == same
    (tmp_path / "two" / "a.jpg").write_bytes(b"x")
    assert digest([tmp_path / "two"]) != same
