"""The keyed pixel path with the shipped networks, through real x264."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

import veilcam
from base.frames import ClearFrame, ProtectedFrame
from codec.h264 import ProtectedEncoder
from codec.pixel_path import BEACON, PixelHider, PixelReader, changed_cells, coherence
from codec.planes import planes_of
from keys.schedule import SegmentKeys
from keys.secret import SecretBytes
from models import load_protector
from models.pixels import SETTINGS, Latents, PixelModel, Planes, load_pixel_model

SAMPLE = Path(veilcam.__file__).parent / "assets" / "sample.mp4"


def keys(text: str = "right") -> SegmentKeys:
    return SegmentKeys(SecretBytes(hashlib.sha256(text.encode()).digest()))


def decoded(frame: ProtectedFrame, crf: float = 23) -> ProtectedFrame:
    encoder = ProtectedEncoder(frame.width, frame.height, rate=10, crf=crf, adaptive=True)
    unit = encoder.encode(frame, force_key=True)
    decoder = av.CodecContext.create("h264", "r")
    (picture,) = [*decoder.decode(av.Packet(unit.annexb())), *decoder.decode(None)]
    luma, cb, cr = planes_of(picture)
    return ProtectedFrame(luma, cb, cr, frame.time_us)


def psnr(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> float:
    return float(-10 * np.log10(np.mean((one.astype(float) - other) ** 2) / 255**2))


def read(reader: PixelReader, frame: ProtectedFrame, text: str = "right") -> tuple[Latents, Latents]:
    """Latents before and after turning back."""
    revealed = reader.reveal(frame)
    return revealed, reader.turn_back(revealed, keys(text))


@pytest.fixture(scope="module")
def clear() -> ClearFrame:
    """A part of the sample with people, 320x256."""
    with av.open(str(SAMPLE)) as container:
        luma, cb, cr = planes_of(next(container.decode(video=0)))
    half = np.s_[64:192, 128:288]
    return ClearFrame(
        np.ascontiguousarray(luma[128:384, 256:576]),
        np.ascontiguousarray(cb[half]),
        np.ascontiguousarray(cr[half]),
        0,
    )


@pytest.fixture(scope="module")
def protected(clear: ClearFrame) -> ProtectedFrame:
    return load_protector(threads=1).protect(clear)


@pytest.fixture(scope="module", params=SETTINGS)
def model(request: pytest.FixtureRequest) -> PixelModel:
    return load_pixel_model(request.param)


def hidden(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame, text: str = "right"
) -> ProtectedFrame:
    hider = PixelHider(model)
    hider.begin(keys(text))
    return hider.hide(clear, protected)


def test_after_the_codec_the_right_key_shows_itself_and_no_other(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame
) -> None:
    received = decoded(hidden(model, clear, protected))
    reader = PixelReader(model)
    assert coherence(read(reader, received)[1]) > 12
    for other in ("wrong", "right ", ""):
        assert abs(coherence(read(reader, received, other)[1])) < 6


def test_pictures_without_anything_hidden_fit_no_key(model: PixelModel, protected: ProtectedFrame) -> None:
    reader = PixelReader(model)
    assert abs(coherence(read(reader, decoded(protected))[1])) < 6


def test_high_brings_back_more_than_the_protected_picture_shows(
    clear: ClearFrame, protected: ProtectedFrame
) -> None:
    model = load_pixel_model("high")
    received = decoded(hidden(model, clear, protected))
    reader = PixelReader(model)
    restored = reader.restore(received, *read(reader, received))
    assert psnr(restored.luma_hw, clear.luma_hw) > psnr(decoded(protected).luma_hw, clear.luma_hw) + 0.5


def test_a_wrong_key_brings_back_no_more_than_the_protected_picture_shows(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame
) -> None:
    received = decoded(hidden(model, clear, protected))
    reader = PixelReader(model)
    restored = reader.restore(received, *read(reader, received, "wrong"))
    assert psnr(restored.luma_hw, clear.luma_hw) < psnr(protected.luma_hw, clear.luma_hw) + 0.3


def test_the_same_key_and_picture_give_the_same_samples_another_key_gives_others(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame
) -> None:
    one = hidden(model, clear, protected)
    assert np.array_equal(one.luma_hw, hidden(model, clear, protected).luma_hw)
    assert not np.array_equal(one.luma_hw, hidden(model, clear, protected, "other").luma_hw)


def test_where_the_protected_picture_stands_still_the_published_one_does(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame
) -> None:
    """However noisy the clear picture is, so that the encoder can skip."""
    hider = PixelHider(model)
    hider.begin(keys())
    first = hider.hide(clear, protected)
    noise = np.random.default_rng(0).integers(-3, 4, clear.luma_hw.shape)
    noisy = ClearFrame(
        np.clip(clear.luma_hw + noise, 0, 255).astype(np.uint8), clear.cb_hw, clear.cr_hw, 40_000
    )
    again = hider.hide(noisy, ProtectedFrame(protected.luma_hw, protected.cb_hw, protected.cr_hw, 40_000))
    assert np.array_equal(first.luma_hw, again.luma_hw)
    assert again.time_us == 40_000


def test_changed_cells_are_drawn_as_in_the_whole_picture(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame
) -> None:
    def with_box(luma_hw: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        changed = luma_hw.copy()
        changed[100:130, 200:240] = 200
        return changed

    later_clear = ClearFrame(with_box(clear.luma_hw), clear.cb_hw, clear.cr_hw, 1)
    later = ProtectedFrame(with_box(protected.luma_hw), protected.cb_hw, protected.cr_hw, 1)
    hider = PixelHider(model)
    hider.begin(keys())
    before = hider.hide(clear, protected).luma_hw
    drawn = hider.hide(later_clear, later).luma_hw
    whole = hidden(model, later_clear, later).luma_hw
    cells = changed_cells(Planes(*_three(protected)), Planes(*_three(later)))
    pixels = cells.repeat(16, 0).repeat(16, 1)
    assert cells.sum() == 3 * 3  # rows 96..143, columns 192..239
    assert np.abs(drawn[pixels].astype(int) - whole[pixels]).max() <= 1
    assert np.array_equal(drawn[~pixels], before[~pixels])


@pytest.fixture(scope="module")
def half_coarse(protected: ProtectedFrame) -> ProtectedFrame:
    """The protected picture, said to be coarse in its right half only."""
    lost = np.zeros((protected.height // 16, protected.width // 16), np.float32)
    lost[:, protected.width // 32 :] = 3
    return replace(protected, lost_octaves=lost)


def test_cells_that_lost_little_are_published_as_drawn_but_for_the_beacon(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame, half_coarse: ProtectedFrame
) -> None:
    published = hidden(model, clear, half_coarse)
    cells = changed_cells(Planes(*_three(protected)), Planes(*_three(published)))
    carrying = np.zeros_like(cells)
    carrying[:, protected.width // 32 :] = True
    carrying[: BEACON[0], : BEACON[1]] = True
    assert not cells[~carrying].any()
    assert cells[carrying].mean() > 0.95


def test_carrying_cells_are_drawn_as_if_all_carried(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame, half_coarse: ProtectedFrame
) -> None:
    one, all_carry = (
        hidden(model, clear, half_coarse),
        hidden(model, clear, replace(protected, lost_octaves=None)),
    )
    right = np.s_[:, protected.width // 2 + 9 * 16 :]  # beyond what filled-in neighbours can reach
    assert np.abs(one.luma_hw[right].astype(int) - all_carry.luma_hw[right]).max() <= 1


def test_the_beacon_alone_shows_the_key(
    model: PixelModel, clear: ClearFrame, protected: ProtectedFrame
) -> None:
    nothing_lost = np.zeros((protected.height // 16, protected.width // 16), np.float32)
    received = decoded(hidden(model, clear, replace(protected, lost_octaves=nothing_lost)))
    reader = PixelReader(model)
    assert reader.fit(read(reader, received)[1]) > 12
    assert abs(reader.fit(read(reader, received, "wrong")[1])) < 6


def test_cells_that_carry_nothing_come_back_almost_as_received(
    model: PixelModel, clear: ClearFrame, half_coarse: ProtectedFrame
) -> None:
    received = decoded(hidden(model, clear, half_coarse))
    reader = PixelReader(model)
    restored = reader.restore(received, *read(reader, received))
    far = np.s_[6 * 16 :, : half_coarse.width // 2 - 3 * 16]  # from the beacon and from the right half
    near = np.s_[:, half_coarse.width // 2 :]
    assert psnr(restored.luma_hw[far], received.luma_hw[far]) > 38
    assert psnr(restored.luma_hw[near], received.luma_hw[near]) < 33


@pytest.mark.parametrize("seed", range(5))
def test_coherence_of_unrelated_directions_is_standard_normal_whatever_their_lengths(seed: int) -> None:
    """400 independent sets of 8 latents with wildly uneven lengths: mean 0, deviation 1, to four errors."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(400):
        directions = random.normal(size=(8, 12, 14))
        directions /= np.linalg.norm(directions, axis=0)
        lengths = np.exp(random.normal(0, 2, size=(12, 14)))
        found.append(coherence((directions * lengths).astype(np.float32)))
    assert abs(np.mean(found)) < 4 / np.sqrt(400)
    assert abs(np.std(found) - 1) < 4 / np.sqrt(2 * 400)


def _three(frame: ProtectedFrame) -> tuple[npt.NDArray[np.uint8], ...]:
    return frame.luma_hw, frame.cb_hw, frame.cr_hw


@pytest.mark.parametrize(("height", "width"), [(250, 318), (64, 66)])
def test_any_even_size_keeps_its_size(model: PixelModel, height: int, width: int) -> None:
    luma = np.full((height, width), 120, np.uint8)
    chroma = np.full((height // 2, width // 2), 128, np.uint8)
    published = hidden(model, ClearFrame(luma, chroma, chroma, 0), ProtectedFrame(luma, chroma, chroma, 0))
    assert (published.height, published.width) == (height, width)
    assert published.cb_hw.shape == chroma.shape
