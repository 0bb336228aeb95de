from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from base.errors import UsageError
from base.frames import ClearFrame
from models import load_protector
from models.pyramid import GATE_ONE
from models.strength import Strength, strength_named, strengthened

Maps = npt.NDArray[np.uint8]


def _gates(coarseness: npt.NDArray[np.float64]) -> Maps:
    """What the network's graph gives for a coarseness in octaves: [1, 6, 1, n]."""
    band = np.arange(1, 7).reshape(1, 6, 1, 1)
    return np.round(np.clip(band - coarseness.reshape(1, 1, 1, -1), 0, 1) * GATE_ONE).astype(np.uint8)


COARSENESS = np.array([-1.0, 0.0, 0.25, 0.5, 1.0, 1.75, 3.0, 4.5, 6.0])
CORES = np.full((1, 6, 1, len(COARSENESS)), 6, np.uint8)


@pytest.mark.parametrize(
    ("strength", "octaves"), [(Strength.LIGHT, -0.5), (Strength.STRONG, 0.5), (Strength.MAXIMUM, 1.0)]
)
def test_a_strength_moves_by_octaves_where_something_was_found_as_a_margin_at_export_would(
    strength: Strength, octaves: float
) -> None:
    wanted = _gates(COARSENESS + octaves * np.clip(COARSENESS, 0, 1))
    np.testing.assert_array_equal(strengthened(strength, _gates(COARSENESS), CORES)[0], wanted)


def test_the_standard_strength_is_the_network_as_it_was_trained() -> None:
    gates, cores = strengthened(Strength.STANDARD, _gates(COARSENESS), CORES)
    np.testing.assert_array_equal(gates, _gates(COARSENESS))
    np.testing.assert_array_equal(cores, CORES)


def test_every_strength_destroys_at_least_what_the_one_before_does() -> None:
    maps = [strengthened(strength, _gates(COARSENESS), CORES) for strength in Strength]
    for (gates, cores), (stronger, more) in pairwise(maps):
        assert (stronger <= gates).all()
        assert (more >= cores).all()
        assert (stronger < gates).any()


def test_the_protector_draws_and_names_its_strength() -> None:
    rng = np.random.default_rng(1)
    luma = np.kron(rng.integers(0, 256, (32, 48), dtype=np.uint8), np.ones((4, 4), np.uint8))
    chroma = np.full((64, 96), 128, np.uint8)
    frame = ClearFrame(luma, chroma, chroma, 0)
    shares = []
    for strength in Strength:
        protector = load_protector(threads=1, strength=strength)
        assert protector.strength == strength
        shares.append(protector.protect_with_map(frame)[1].open_share())
    assert shares == sorted(shares, reverse=True)
    default = load_protector(threads=1)
    assert default.strength == Strength.STANDARD
    standard = load_protector(threads=1, strength=Strength.STANDARD)
    np.testing.assert_array_equal(default.protect(frame).luma_hw, standard.protect(frame).luma_hw)


@pytest.mark.parametrize("hold", [False, True])
def test_only_the_strongest_leaves_no_colours(hold: bool) -> None:
    rng = np.random.default_rng(1)
    for index, strength in enumerate(Strength):
        protector = load_protector(threads=1, hold=hold, strength=strength)
        for picture in range(3):
            planes = [
                np.kron(rng.integers(60, 200, shape, dtype=np.uint8), np.ones((16, 16), np.uint8))
                for shape in ((8, 12), (4, 6), (4, 6))
            ]
            drawn = protector.protect(ClearFrame(planes[0], planes[1], planes[2], 40_000 * picture))
            greys = [(plane == 128).all() for plane in (drawn.cb_hw, drawn.cr_hw)]
            assert greys == [index == 3] * 2


def test_strengths_have_names_and_others_are_refused() -> None:
    assert [strength_named(name) for name in ("light", "standard", "strong", "maximum")] == list(Strength)
    with pytest.raises(UsageError, match="'utter'"):
        strength_named("utter")
