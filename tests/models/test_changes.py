from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from models.changes import BACKGROUND_LEVELS, SEEN_LEVELS, ChangeFinder, Mask, looks_alike

HEIGHT, WIDTH = 240, 320
Floats = npt.NDArray[np.float64]


def _scene(seed: int = 1) -> Floats:
    """Broad shapes, edges and fine texture."""
    rng = np.random.default_rng(seed)
    scene = np.kron(rng.uniform(40, 200, (6, 8)), np.ones((40, 40)))
    return scene + rng.normal(0, 6, scene.shape)


_NOISE = np.random.default_rng(9).normal(0, 1, (HEIGHT, WIDTH))


def _seen(
    finder: ChangeFinder, luma: Floats, chroma: float = 128.0, *, noise: float = 0.0, seed: int = 0
) -> Mask:
    """What is found in a picture with sensor noise, half as much of it in the colours."""
    rng = np.random.default_rng(seed)
    planes = []
    for value, strength in ((luma, noise), (chroma, noise / 2), (chroma, noise / 2)):
        shift = (int(rng.integers(HEIGHT)), int(rng.integers(WIDTH)))
        grain = np.roll(_NOISE, shift, (0, 1))
        part = grain if isinstance(value, np.ndarray) else grain[: HEIGHT // 2, : WIDTH // 2]
        planes.append(np.clip(value + strength * part, 0, 255).round().astype(np.uint8))
    return finder.changed(planes[0], np.stack(planes[1:]))


def _watching(noise: float, pictures: int = 14) -> ChangeFinder:
    """A finder that has seen an unchanging scene and drawn it once at its start."""
    finder = ChangeFinder(HEIGHT, WIDTH)
    for seed in range(pictures):
        changed = _seen(finder, _scene(), noise=noise, seed=seed)
        if seed == 0:
            assert changed.all()
        if seed == 8:  # a key frame, once the noise is known
            changed[:] = True
        finder.drawn(changed)
    return finder


@pytest.mark.parametrize(("noise", "share"), [(0.0, 0.0), (1.0, 0.002), (3.0, 0.005), (6.0, 0.01)])
def test_sensor_noise_is_no_change(noise: float, share: float) -> None:
    finder = _watching(noise)
    shares = [_seen(finder, _scene(), noise=noise, seed=100 + seed).mean() for seed in range(10)]
    assert np.mean(shares) <= share


@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize(("height", "width", "contrast"), [(12, 5, 25.0), (8, 4, 30.0), (20, 8, 20.0)])
def test_a_small_distant_person_is_seen_wherever_it_stands(
    noise: float, height: int, width: int, contrast: float
) -> None:
    rng = np.random.default_rng(5)
    missed = 0
    for seed in range(8):
        finder = _watching(noise)
        scene = _scene()
        top, left = rng.integers(0, HEIGHT - height), rng.integers(0, WIDTH - width)
        scene[top : top + height, left : left + width] += contrast
        blocks = _seen(finder, scene, noise=noise, seed=200 + seed)
        missed += not blocks[(top + height // 2) // 16, (left + width // 2) // 16]
    assert missed == 0


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_slow_drift_adds_up_until_it_is_seen(noise: float) -> None:
    finder = _watching(noise)
    largest = 0.0
    drawn_at = np.zeros((HEIGHT // 16, WIDTH // 16))
    for step in range(80):
        drift = 0.05 * step
        blocks = _seen(finder, _scene() + drift, noise=noise, seed=300 + step)
        drawn_at[blocks] = drift
        finder.drawn(blocks)
        largest = max(largest, drift - float(drawn_at.min()))
    assert largest <= 2.0  # grey levels that a held block may lie behind


@pytest.mark.parametrize("step", [-3.0, 3.0])
def test_a_change_of_the_light_is_seen_everywhere(step: float) -> None:
    assert _seen(_watching(2.0), _scene() + step, noise=2.0, seed=400).mean() > 0.99


def test_a_change_of_colour_alone_is_seen() -> None:
    assert _seen(_watching(1.0), _scene(), chroma=132.0, noise=1.0, seed=500).mean() > 0.99


def test_a_shaking_camera_cannot_raise_the_limits_without_end() -> None:
    finder = _watching(0.0)
    for shift in range(30):
        finder.drawn(_seen(finder, np.roll(_scene(), 7 * shift, axis=1)))
    cells, blocks = finder.limits()
    assert cells[0] <= 12.0
    assert blocks[0] <= 2.5


def test_only_blocks_that_were_drawn_get_a_new_reference() -> None:
    finder = _watching(0.0)
    brighter = _scene() + 20
    assert _seen(finder, brighter).all()
    half = np.zeros((HEIGHT // 16, WIDTH // 16), np.bool_)
    half[:, :10] = True
    finder.drawn(half)
    np.testing.assert_array_equal(_seen(finder, brighter), ~half)


@pytest.mark.parametrize(
    ("finest_gate", "levels"), [(128, SEEN_LEVELS), (1, SEEN_LEVELS), (0, BACKGROUND_LEVELS)]
)
def test_one_sample_that_differs_by_more_than_allowed_draws_its_block_anew(
    finest_gate: int, levels: int
) -> None:
    shown = [np.full(shape, 100, np.uint8) for shape in ((48, 64), (24, 32), (24, 32))]
    gates = np.full((6, 8), finest_gate, np.uint8)
    for plane, (row, column) in ((0, (20, 40)), (1, (10, 20)), (2, (15, 23))):
        for difference, alike in ((levels, True), (levels + 1, False), (-levels, True), (-levels - 1, False)):
            drawn = [one.copy() for one in shown]
            drawn[plane][row, column] = 100 + difference
            answer = looks_alike((shown[0], shown[1], shown[2]), (drawn[0], drawn[1], drawn[2]), gates)
            wanted = np.ones((3, 4), np.bool_)
            wanted[1, 2] = alike
            np.testing.assert_array_equal(answer, wanted)
