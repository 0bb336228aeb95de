"""Training of the keyed pixel path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")
pytest.importorskip("onnx", reason="needs the train extra")

from base.errors import UsageError  # noqa: E402
from models.pixels import Planes, load_pixel_model  # noqa: E402
from models.train.coded import x264_round_trip  # noqa: E402
from models.train.export_pixels import export_pixels  # noqa: E402
from models.train.networks import Generator  # noqa: E402
from models.train.pixel_networks import HIGH, LOW, PixelNetworks, PixelShape, on_sphere  # noqa: E402
from models.train.pixels import PixelTrainer, PixelTraining, structural_similarity  # noqa: E402
from models.train.rate import coded_bits  # noqa: E402
from models.train.rotations import random_rotations, rotated, rotated_back  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]


def _soft(count: int, size: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    small = torch.rand(count, 3, 8, 8, generator=generator)
    luma = torch.nn.functional.interpolate(small[:, :1], size=(size, size), mode="bicubic").clamp(0, 1)
    chroma = torch.nn.functional.interpolate(small[:, 1:], size=(size // 2, size // 2), mode="bicubic")
    return luma, chroma.clamp(0, 1)


@pytest.mark.parametrize("shape", [HIGH, LOW])
def test_latents_lie_on_the_sphere_that_rotations_keep(shape: PixelShape) -> None:
    networks = PixelNetworks(shape)
    latents = networks.analyse(_soft(2, seed=1), _soft(2, seed=2))
    rows = 64 // shape.cell
    assert latents.shape == (2, shape.channels, rows, rows)
    expected = torch.full((2, rows, rows), float(shape.channels))
    assert torch.allclose(latents.square().sum(1), expected, rtol=1e-3)
    rotations = random_rotations(shape.channels, rows, rows)
    assert torch.allclose(rotated_back(rotated(latents, rotations), rotations), latents, atol=1e-4)


@pytest.mark.parametrize("shape", [HIGH, LOW])
def test_before_training_the_linear_paths_alone_carry_the_detail_through(shape: PixelShape) -> None:
    """Without codec and convolutions, on a flat protected picture, most of a low wave comes back."""
    networks = PixelNetworks(shape)
    for part in (networks.analyse, networks.hide, networks.reveal):
        torch.nn.init.zeros_(part.body[-1].weight)
    for tail in (networks.restore.coarse[-1], networks.restore.tail):
        torch.nn.init.zeros_(tail.weight)
    luma, chroma = _soft(1, seed=3)
    clear = (0.5 + 0.1 * (luma - 0.5), 0.5 + 0 * chroma)
    flat = (torch.full_like(luma, 0.5), torch.full_like(chroma, 0.5))
    with torch.no_grad():
        latents = networks.analyse(clear, flat)
        rotations = random_rotations(shape.channels, *latents.shape[-2:])
        published = networks.hide(flat, rotated(latents, rotations))
        revealed = networks.reveal(published)
        restored = networks.restore(published, revealed, rotated_back(revealed, rotations))
    before = (flat[0] - clear[0]).square().mean()
    assert (restored[0] - clear[0]).square().mean() < 0.5 * before


def test_the_codec_round_trip_passes_gradients_straight_through() -> None:
    luma, chroma = (plane.requires_grad_(True) for plane in _soft(2, seed=4))
    coded = x264_round_trip(luma, chroma, crf=23)
    (coded.luma.sum() + 3 * coded.chroma.sum()).backward()
    assert luma.grad is not None and torch.equal(luma.grad, torch.ones_like(luma))
    assert chroma.grad is not None and torch.equal(chroma.grad, torch.full_like(chroma, 3))


def test_the_codec_round_trip_is_the_codec_finer_at_a_lower_crf() -> None:
    planes = _soft(2, seed=5)
    fine, coarse = (x264_round_trip(planes[0], planes[1], crf) for crf in (10, 40))
    errors = [float((coded.luma - planes[0]).abs().mean()) for coded in (fine, coarse)]
    assert 0 < errors[0] < errors[1]
    assert fine.bits_per_pixel > coarse.bits_per_pixel


def test_a_flat_picture_costs_nothing_and_finer_detail_costs_more() -> None:
    assert float(coded_bits(torch.full((1, 1, 64, 64), 0.3))) == pytest.approx(0, abs=1e-6)
    wave = torch.sin(torch.arange(64) * 0.8).expand(1, 1, 64, 64) * 0.1
    assert 0 < float(coded_bits(wave)) < float(coded_bits(3 * wave))


def test_one_coefficient_costs_the_logarithm_of_its_size_over_the_step() -> None:
    """cos(pi (2x + 1) / 16) is the first wave: orthonormal coefficient 8 * a / sqrt(2) in every block."""
    place = torch.arange(64) % 8 + 0.5
    amplitude, step = 0.2, 9 / 255
    plane = amplitude * torch.cos(np.pi * place / 8).expand(1, 1, 64, 64)
    coefficient = amplitude * 8 / np.sqrt(2)
    expected = 0.5 * np.log2(1 + (coefficient / step) ** 2) / 64
    assert float(coded_bits(plane)) == pytest.approx(expected, rel=1e-4)


def test_similarity_is_one_for_equal_pictures_and_falls_with_noise() -> None:
    luma, _ = _soft(1, seed=6)
    noisy = luma + 0.1 * torch.randn_like(luma)
    assert float(structural_similarity(luma, luma)) == pytest.approx(1)
    assert float(structural_similarity(luma, noisy)) < 0.9


def test_the_run_time_gives_what_the_networks_gave(tmp_path: Path) -> None:
    torch.manual_seed(1)
    networks = PixelNetworks(LOW).eval()
    export_pixels(networks, "low", tmp_path, {"licence": "none"})
    model = load_pixel_model("low", folder=tmp_path)
    clear, drawn = _soft(1, seed=7), _soft(1, seed=8)

    def planes(pair: tuple[Tensor, Tensor]) -> Planes:
        luma, chroma = ((plane[0] * 255).round().byte().numpy() for plane in pair)
        return Planes(luma[0], chroma[0], chroma[1])

    def unit(pair: Planes) -> tuple[Tensor, Tensor]:
        chroma = np.stack([pair.cb_hw, pair.cr_hw])
        return torch.tensor(pair.luma_hw)[None, None] / 255, torch.tensor(chroma)[None] / 255

    one, two = planes(clear), planes(drawn)
    with torch.no_grad():
        latents = networks.analyse(unit(one), unit(two))
        published = networks.hide(unit(two), latents)
    np.testing.assert_allclose(model.analyse(one, two), latents[0].numpy(), atol=2e-3)
    got = model.hide(two, latents[0].numpy())
    assert np.abs(got.luma_hw / 255 - published[0][0, 0].numpy()).max() < 1.01 / 255


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PixelTraining:
    monkeypatch.setattr("models.train.samples.FaceFinder", lambda _: lambda _: [])
    pictures = tmp_path / "pictures"
    (tmp_path / "faces").mkdir()
    pictures.mkdir()
    for index in range(2):
        noise = np.random.default_rng(index).integers(0, 255, (10, 12, 3), dtype=np.uint8)
        cv2.imwrite(str(pictures / f"{index}.png"), cv2.resize(noise, (160, 140)))
    generator = Generator()
    averaged = {f"module.{name}": value for name, value in generator.state_dict().items()}
    torch.save({"averaged": averaged}, tmp_path / "protector.pt")
    return PixelTraining(
        setting="low",
        protector=tmp_path / "protector.pt",
        pictures=(pictures,),
        faces=tmp_path / "faces",
        face_finder=tmp_path / "unused.onnx",
        out=tmp_path / "out",
        minutes=0.03,
        crop_size=64,
        batch=2,
        threads=1,
    )


def test_a_run_writes_figures_a_sheet_and_a_checkpoint_that_the_next_run_continues(
    settings: PixelTraining,
) -> None:
    PixelTrainer(settings).run()
    stored = torch.load(settings.out / "checkpoint.pt", weights_only=True)
    assert stored["state"]["step"] > 0
    again = PixelTrainer(settings)
    assert again.resume()
    for name, value in again.networks.state_dict().items():
        assert torch.equal(value, stored["networks"][name])
    sheet = cv2.imread(str(settings.out / "sheet.jpg"))
    assert sheet is not None and sheet.shape[1] == 5 * settings.crop_size


def test_an_unknown_setting_is_refused(settings: PixelTraining) -> None:
    from dataclasses import replace  # noqa: PLC0415

    with pytest.raises(UsageError, match="high, low"):
        PixelTrainer(replace(settings, setting="middle"))


def test_on_sphere_survives_zeros() -> None:
    assert torch.isfinite(on_sphere(torch.zeros(1, 4, 2, 2))).all()
