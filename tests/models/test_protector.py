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
from models import Background, Protector, load_protector, read_card
from models.canvas import Look
from models.card import WEIGHTS, read_weights
from models.protector import CARD, GATES_GRAPH, GATES_INT8_GRAPH
from models.pyramid import GATE_ONE
from models.session import BACKEND_VARIABLE
from models.video import MAX_HELD_S

STATE = "protector-v3.safetensors"
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
    assert {GATES_GRAPH, STATE} <= set(card.files)
    assert set(card.files) <= {GATES_GRAPH, STATE, GATES_INT8_GRAPH}
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


def test_a_grey_wall_stays_grey_so_that_it_costs_the_encoder_nothing(protector: Protector) -> None:
    wall = np.full((128, 192), 120, np.uint8)
    chroma = np.full((64, 96), 128, np.uint8)
    drawn = protector.protect(ClearFrame(wall, chroma, chroma, 0))
    for got, wanted in ((drawn.luma_hw, wall), (drawn.cb_hw, chroma), (drawn.cr_hw, chroma)):
        np.testing.assert_array_equal(got, wanted)


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


def test_what_must_be_hidden_is_hidden_as_much_with_a_coarse_background() -> None:
    fine = load_protector(threads=1, refresh=2, background=Background.FINE)  # as its looks say, nothing held
    coarse = load_protector(threads=1, hold=True, refresh=2)
    for step in range(12):
        frame = _with_box(_still(), 20 + 12 * step, step * 40_000)
        shut_at_least = fine.protect_with_map(frame)[1].gates
        assert (coarse.protect_with_map(frame)[1].gates <= shut_at_least).all()


@pytest.mark.parametrize("contrast", [8, 12, 30])
def test_faint_text_that_became_background_goes_when_it_goes(
    contrast: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = np.full((128, 256), 100, np.uint8)
    written = blank.copy()
    cv2.putText(written, "KX51 ABC", (40, 75), cv2.FONT_HERSHEY_SIMPLEX, 1.2, 100 + contrast, 3)
    chroma = np.full((64, 128), 128, np.uint8)
    gates, floor = np.full((1, 6, 16, 32), GATE_ONE, np.uint8), np.zeros((16, 32), np.int16)
    monkeypatch.setattr(
        "models.canvas.Canvas.look",
        lambda *_, **__: Look(gates, np.zeros_like(gates), [], floor.copy(), np.zeros((0, 4))),
    )
    held = load_protector(threads=1, hold=True)
    for index in range(40):
        if index == 5:
            floor += 3 * GATE_ONE
        drawn = held.protect(
            ClearFrame(written if index < 25 else blank, chroma, chroma, 40_000 * index)
        ).luma_hw
    stroke = written > 100
    assert abs(drawn[stroke].mean() - drawn[~stroke].mean()) < 2


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


def _still(brighter: int = 0, time_us: int = 0) -> ClearFrame:
    """A real scene at rest; a little light more does not count as a change."""
    luma = np.minimum(_sample_luma()[:192, :256], 250) + np.uint8(brighter)
    chroma = np.full((96, 128), 128, np.uint8)
    return ClearFrame(luma, chroma, chroma, time_us)


def _with_box(frame: ClearFrame, left: int, time_us: int) -> ClearFrame:
    """The frame with a dark upright box of a distant person's size."""
    luma = frame.luma_hw.copy()
    luma[80:120, left : left + 16] = 255 - luma[80:120, left : left + 16]
    return ClearFrame(luma, frame.cb_hw, frame.cr_hw, time_us)


def test_a_still_scene_is_drawn_once_and_is_what_drawing_every_picture_gives() -> None:
    held = load_protector(threads=1, hold=True)
    drawn_always = load_protector(threads=1, hold=True)
    for picture in range(12):
        drawn = held.protect(_still(time_us=picture))
        wanted = drawn_always.protect(_still(time_us=picture), renew=True)
        assert drawn.time_us == picture
        np.testing.assert_array_equal(drawn.luma_hw, wanted.luma_hw)
        np.testing.assert_array_equal(drawn.cb_hw, wanted.cb_hw)


def test_held_pictures_follow_what_moves_and_leave_no_trail() -> None:
    # Of the background no look needs to be kept: it hides nothing.
    held = load_protector(threads=1, hold=True, background=Background.FINE)
    whole = load_protector(threads=1, refresh=1, background=Background.FINE)
    repeated = 0.0
    before: Plane | None = None
    for step in range(14):
        frame = _with_box(_still(), 20 + 12 * step, step * 40_000)
        drawn, gates = held.protect_with_map(frame)
        wanted, asked = whole.protect_with_map(frame)
        assert (gates.gates <= asked.gates).all()  # nowhere more open than a look at this very picture
        left = slice(0, 4 + 12 * step)  # where the box has been
        trail = cv2.blur(np.abs(drawn.luma_hw[:, left].astype(np.float32) - wanted.luma_hw[:, left]), (8, 8))
        coarser = (gates.gates < asked.gates).any(0).repeat(8, 0).repeat(8, 1)[:, left]
        near = cv2.dilate(coarser.astype(np.uint8), np.ones((129, 129), np.uint8)) > 0
        assert trail[~near].max(initial=0) < 4
        if before is not None:
            repeated += float((drawn.luma_hw == before).mean())
        before = drawn.luma_hw
    assert repeated / 13 > 0.5


def test_renewing_draws_every_block_from_the_picture_at_hand() -> None:
    held = load_protector(threads=1, hold=True)
    first = held.protect(_still()).luma_hw
    assert (held.protect(_still(brighter=1)).luma_hw == first).mean() > 0.7
    renewed = held.protect(_still(brighter=1), renew=True).luma_hw
    assert (renewed.astype(np.int16) - first).mean() > 0.8


@pytest.mark.parametrize("later_us", [int(MAX_HELD_S * 1e6), -1])
def test_no_error_stays_longer_than_ten_seconds_even_if_times_jump(later_us: int) -> None:
    held = load_protector(threads=1, hold=True)
    first = held.protect(_still()).luma_hw
    assert (held.protect(_still(brighter=1, time_us=1_000)).luma_hw == first).mean() > 0.7
    late = held.protect(_still(brighter=1, time_us=later_us)).luma_hw
    assert (late.astype(np.int16) - first).mean() > 0.8


def test_a_held_picture_already_handed_out_is_never_written_to_again() -> None:
    held = load_protector(threads=1, hold=True)
    handed = [held.protect(_with_box(_still(), 20 + 30 * step, step)) for step in range(4)]
    again = load_protector(threads=1, hold=True)
    for step, drawn in enumerate(handed):
        np.testing.assert_array_equal(
            again.protect(_with_box(_still(), 20 + 30 * step, step)).luma_hw, drawn.luma_hw
        )
