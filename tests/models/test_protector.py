from __future__ import annotations

import threading
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest

import veilcam.assets
from base.errors import MissingDependency, UsageError
from base.frames import ClearFrame
from models import Protector, load_protector, read_card
from models.card import WEIGHTS, read_weights
from models.protector import CARD
from models.session import BACKEND_VARIABLE

SAMPLE = Path(veilcam.assets.__file__).with_name("sample.mp4")
Plane = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def protector() -> Protector:
    return load_protector(threads=1)


def _frame(height: int, width: int, seed: int = 0, time_us: int = 0) -> ClearFrame:
    rng = np.random.default_rng(seed)

    def plane(rows: int, columns: int) -> Plane:
        small = rng.integers(0, 256, (8, 8), dtype=np.uint8)
        return np.asarray(cv2.resize(small, (columns, rows), interpolation=cv2.INTER_CUBIC), np.uint8)

    half = (height // 2, width // 2)
    return ClearFrame(plane(height, width), plane(*half), plane(*half), time_us)


def _sample_luma() -> Plane:
    with av.open(str(SAMPLE)) as container:
        picture = next(container.decode(video=0))
        return np.asarray(picture.to_ndarray(format="gray"), np.uint8)


def test_every_shipped_file_is_the_one_on_the_card_and_together_they_are_small() -> None:
    card = read_card(WEIGHTS / CARD)
    sizes = [len(read_weights(card, name)) for name in card.files]
    assert sorted(Path(name).suffix for name in card.files) == [".onnx", ".onnx", ".safetensors"]
    assert sum(sizes) < 4_000_000
    assert {"training", "metrics", "licence"} <= set(card.described)


@pytest.mark.parametrize(("height", "width"), [(240, 320), (2, 2), (178, 322), (64, 640), (720, 1280)])
def test_any_even_size_keeps_its_size_and_time(protector: Protector, height: int, width: int) -> None:
    drawn = protector.protect(_frame(height, width, time_us=123))
    assert (drawn.height, drawn.width, drawn.time_us) == (height, width, 123)
    assert drawn.cb_hw.shape == (height // 2, width // 2)


def test_the_same_frame_gives_the_same_picture_whatever_came_before(protector: Protector) -> None:
    first = protector.protect(_frame(128, 192, seed=1))
    protector.protect(_frame(240, 320, seed=2))
    again = protector.protect(_frame(128, 192, seed=1))
    np.testing.assert_array_equal(first.luma_hw, again.luma_hw)
    np.testing.assert_array_equal(first.cr_hw, again.cr_hw)


def test_a_picture_already_handed_out_is_never_written_to_again(protector: Protector) -> None:
    first = protector.protect(_frame(128, 192, seed=1))
    copy = first.luma_hw.copy()
    protector.protect(_frame(128, 192, seed=9))
    np.testing.assert_array_equal(first.luma_hw, copy)


def test_threads_sharing_a_protector_do_not_mix_their_pictures(protector: Protector) -> None:
    frames = [_frame(64, 64 * (1 + index % 2), seed=index) for index in range(4)]
    wanted = [protector.protect(frame).luma_hw.copy() for frame in frames]
    failures: list[int] = []

    def check(index: int) -> None:
        for _ in range(10):
            if not np.array_equal(protector.protect(frames[index]).luma_hw, wanted[index]):
                failures.append(index)

    threads = [threading.Thread(target=check, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("height_px", [24, 48])
def test_burnt_in_text_loses_its_strokes(protector: Protector, height_px: int) -> None:
    luma = _sample_luma()
    height, width = luma.shape
    chroma = np.full((height // 2, width // 2), 128, np.uint8)
    plain = protector.protect(ClearFrame(luma, chroma, chroma, 0)).luma_hw
    scale = height_px / 22
    cv2.rectangle(luma, (60, 380), (60 + 16 * height_px, 400 + 2 * height_px), 20, -1)
    place = (70, 390 + height_px)
    cv2.putText(
        luma, "2026-11-30 KX51 AB", place, cv2.FONT_HERSHEY_SIMPLEX, scale, 240, max(2, height_px // 10)
    )
    window = np.s_[385 : 395 + height_px, 70 : 70 + 12 * height_px]
    drawn = protector.protect(ClearFrame(luma, chroma, chroma, 0)).luma_hw

    def strokes(picture: Plane) -> float:
        return float(np.abs(cv2.Laplacian(picture[window], cv2.CV_32F)).mean())

    # Strokes are what an OCR reads: at most a quarter of their energy may come through.
    assert strokes(drawn) < 0.25 * strokes(luma)
    assert strokes(plain) < strokes(luma)


def test_the_gate_map_has_a_value_for_every_block(protector: Protector) -> None:
    _, gates = protector.protect_with_map(_frame(178, 322))
    assert gates.cell_size().shape == (23, 41)
    assert set(np.unique(gates.cell_size())) <= {1, 2, 4, 8, 16, 32, 64}
    assert 0 <= gates.open_share() <= 1


def test_backends_are_chosen_by_name_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BACKEND_VARIABLE, "onnxruntime")
    chosen = load_protector(threads=1)
    assert chosen.backend == "not chosen yet"
    chosen.protect(_frame(64, 64))
    assert chosen.backend == "onnxruntime"
    monkeypatch.setenv(BACKEND_VARIABLE, "abacus")
    with pytest.raises(UsageError, match="abacus"):
        load_protector(threads=1).protect(_frame(64, 64))


def test_a_backend_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BACKEND_VARIABLE, "openvino")
    monkeypatch.setattr("models.session.installed_backends", lambda: ["onnxruntime"])
    with pytest.raises(MissingDependency, match="openvino"):
        load_protector(threads=1).protect(_frame(64, 64))


def test_between_two_looks_every_block_stays_as_coarse_as_its_neighbours_and_the_look_before() -> None:
    every = load_protector(threads=1)
    video = load_protector(threads=1, refresh=2)
    frames = [_frame(128, 192, seed=index) for index in range(4)]
    looks = [every.protect_with_map(frame)[1].gates for frame in frames]
    seen = [video.protect_with_map(frame)[1].gates for frame in frames]

    def widened(gates: Plane) -> Plane:
        padded = np.pad(gates, ((0, 0), (1, 1), (1, 1)), constant_values=255)
        shifts = [
            padded[:, y : y + gates.shape[1], x : x + gates.shape[2]] for y in range(3) for x in range(3)
        ]
        return np.asarray(np.minimum.reduce(shifts), np.uint8)

    np.testing.assert_array_equal(seen[0], widened(looks[0]))
    np.testing.assert_array_equal(seen[1], seen[0])  # no look at the second picture
    np.testing.assert_array_equal(seen[2], widened(np.minimum(looks[0], looks[2])))
    np.testing.assert_array_equal(seen[3], seen[2])


def test_a_refresh_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="got 0"):
        load_protector(refresh=0)
