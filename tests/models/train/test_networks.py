from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")

from base.frames import ClearFrame  # noqa: E402
from models import Background, load_protector  # noqa: E402
from models.background import with_floor  # noqa: E402
from models.pyramid import GATE_ONE, GatedPyramid  # noqa: E402
from models.train.networks import (  # noqa: E402
    BANDS,
    Generator,
    gated_pyramid,
    gates_of,
    with_margin,
)

pytestmark = pytest.mark.train


def _smooth(seed: int, height: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    small = np.random.default_rng(seed).integers(0, 256, (height // 4, width // 4), dtype=np.uint8)
    return np.kron(small, np.ones((4, 4), np.uint8))


def test_integer_pyramid_agrees_with_the_network_within_rounding() -> None:
    plane = _smooth(1, 128, 192)
    rng = np.random.default_rng(2)
    gates = rng.integers(0, GATE_ONE + 1, (BANDS, 16, 24), dtype=np.uint8)
    thresholds = rng.integers(0, 26, (BANDS, 16, 24), dtype=np.uint8)
    fast = GatedPyramid(128, 192, BANDS)(plane, gates, thresholds).astype(float)
    exact = 255 * gated_pyramid(
        torch.from_numpy(plane)[None, None].float() / 255,
        torch.from_numpy(gates)[None].float() / GATE_ONE,
        torch.from_numpy(thresholds)[None].float() / 255,
    )
    difference = np.abs(fast - exact[0, 0].clamp(0, 255).numpy())
    assert difference.max() < 7
    assert difference.mean() < 1


def test_a_floor_shuts_in_training_what_it_shuts_in_the_camera() -> None:
    torch.manual_seed(1)
    generator = Generator().eval()
    torch.nn.init.constant_(generator.gate_net.head.bias[1:], -3.0)
    rng = np.random.default_rng(3)
    floor = rng.integers(0, 5 * GATE_ONE, (8, 8)).astype(np.int16)
    luma, chroma = torch.rand(1, 1, 64, 64), torch.rand(1, 2, 32, 32)
    with torch.no_grad():
        free = generator(luma, chroma)
        got = generator(luma, chroma, torch.from_numpy(floor)[None, None].float() / GATE_ONE)
    gates = (free.gates.numpy() * GATE_ONE).round().astype(np.uint8)
    thresholds = (free.thresholds.numpy() * 255).round().astype(np.uint8)
    shut, cored = with_floor(gates, thresholds, floor)
    assert np.abs(got.gates.numpy() * GATE_ONE - shut).max() <= 1
    assert np.abs(got.thresholds.numpy() * 255 - cored).max() <= 1
    assert (got.gates < free.gates).any()
    assert (got.thresholds > free.thresholds).any()


def test_an_exported_graph_draws_what_the_network_draws(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="needs the train extra")
    from models.train.export import export_protector  # noqa: PLC0415

    torch.manual_seed(3)
    generator = Generator()
    torch.nn.init.normal_(generator.gate_net.head.weight, std=0.1)
    export_protector(generator, tmp_path, {"training": {}, "metrics": {}, "licence": "none"})
    planes = [_smooth(4, 128, 192), _smooth(5, 64, 96), _smooth(6, 64, 96)]
    protector = load_protector(folder=tmp_path, background=Background.FINE)
    drawn = protector.protect(ClearFrame(planes[0], planes[1], planes[2], 7))
    with torch.no_grad():
        wanted = generator(
            torch.from_numpy(planes[0])[None, None].float() / 255,
            torch.from_numpy(np.stack(planes[1:]))[None].float() / 255,
        )
    assert drawn.time_us == 7
    for got, plane in ((drawn.luma_hw, wanted.luma[0, 0]), (drawn.cr_hw, wanted.chroma[0, 1])):
        difference = np.abs(got.astype(float) - 255 * plane.numpy())
        assert difference.max() < 8
        assert difference.mean() < 1.5


@pytest.mark.parametrize(("logit", "gates"), [(-9.0, [1, 1, 1, 1, 1, 1]), (9.0, [0, 0, 0, 0, 0, 0])])
def test_the_ends_of_coarseness_open_and_shut_everything(logit: float, gates: list[int]) -> None:
    logits = torch.full((1, 1 + BANDS, 1, 1), logit)
    assert gates_of(logits)[0].flatten().tolist() == gates


def test_a_margin_coarsens_what_was_found_and_leaves_the_background() -> None:
    logits = torch.tensor([-1.0, 0.0, 0.5, 2.0, 5.0]).reshape(1, 1, 1, 5)
    assert with_margin(logits, 0.5).flatten().tolist() == [-1.0, 0.0, 0.75, 2.5, 5.5]


def test_a_band_passes_only_where_all_coarser_ones_do() -> None:
    logits = torch.linspace(-1, 7, 101).reshape(1, 1, 1, 101).expand(1, 1 + BANDS, 1, 101)
    gates, _ = gates_of(logits)
    assert bool((gates[:, 1:] >= gates[:, :-1]).all())
    assert bool(((gates[:, :-1] == 0) | (gates[:, 1:] == 1)).all())


def test_what_is_finer_than_a_shut_gate_leaves_no_trace() -> None:
    generator = Generator().eval()
    with torch.no_grad():
        generator.gate_net.head.bias[0] = 9.0  # all shut
        flat = torch.full((1, 1, 64, 64), 0.5)
        detailed = flat.clone()
        detailed[..., ::2] += 0.2
        detailed[..., 1::2] -= 0.2
        chroma = torch.full((1, 2, 32, 32), 0.5)
        assert torch.allclose(generator(flat, chroma).luma, generator(detailed, chroma).luma, atol=1e-5)
