from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from base.errors import UsageError
from models.drawn_face import CARD, MIDDLE, read_drawn_face
from models.train.mean_face import LEAST_FACES, main, mean_face


def _read(png: bytes) -> np.ndarray:
    picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)
    assert picture is not None
    return picture.astype(float)


def test_the_mean_face_is_the_same_mirrored_and_has_no_shading_of_its_own() -> None:
    rng = np.random.default_rng(0)
    ramp = np.linspace(60, 180, 112)[None, :, None]
    faces = [
        np.clip(ramp + rng.normal(0, 20, (112, 112, 3)), 0, 255).astype(np.uint8) for _ in range(LEAST_FACES)
    ]
    for face in faces:
        cv2.circle(face, (38, 52), 6, (10, 10, 10), -1)
    mean = _read(mean_face(faces))
    assert np.abs(mean - mean[:, ::-1]).max() <= 1
    assert mean[52, 38] < MIDDLE - 20
    assert mean[20:30, 50:62].mean() == pytest.approx(MIDDLE, abs=4)


def test_one_face_more_or_less_changes_next_to_nothing() -> None:
    rng = np.random.default_rng(1)
    faces = [rng.integers(0, 256, (112, 112, 3), dtype=np.uint8) for _ in range(LEAST_FACES + 1)]
    gap = np.abs(_read(mean_face(faces)) - _read(mean_face(faces[:-1])))
    assert gap.max() <= 256 / LEAST_FACES + 1


def test_a_mean_of_few_would_show_them() -> None:
    with pytest.raises(UsageError, match=f"at least {LEAST_FACES} faces, got 3"):
        mean_face([np.zeros((112, 112, 3), np.uint8)] * 3)


def test_the_command_writes_a_card_that_the_runtime_reads(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the train extra")
    somebody = tmp_path / "faces" / "somebody"
    somebody.mkdir(parents=True)
    for index in range(LEAST_FACES):
        cv2.imwrite(str(somebody / f"{index}.png"), np.full((112, 112, 3), 90 + index, np.uint8))
    (tmp_path / "finder.onnx").write_bytes(b"a graph")
    arguments = [
        "--faces",
        str(tmp_path / "faces"),
        "--finder",
        str(tmp_path / "finder.onnx"),
        "--out",
        str(tmp_path),
    ]
    assert main([*arguments, "--json"]) == 0
    assert (tmp_path / CARD).exists()
    face = read_drawn_face(tmp_path)
    assert face.finder == b"a graph"
    assert np.ptp(_read(face.picture)) <= 1  # flat faces have no detail
