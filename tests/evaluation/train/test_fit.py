"""The attackers learn what can be learned: a weak attacker would prove nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the train extra (torch) is not installed")

from evaluation.context import silent  # noqa: E402
from evaluation.pairs import Pairs  # noqa: E402
from evaluation.quality import psnr  # noqa: E402
from evaluation.train.fit import Budget, described, fit_inverter, fit_recogniser, inverted, load, save  # noqa: E402
from evaluation.train.networks import InverterNet, RecogniserNet  # noqa: E402

pytestmark = pytest.mark.train
PEOPLE = 4


def pictures(count: int, seed: int, cell: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """Coarse patterns of a few people: their own colours in a 4x4 grid, in changing light."""
    own = np.random.default_rng(9).integers(40, 216, (PEOPLE, 4, 4, 3))
    rng = np.random.default_rng(seed)
    owners = rng.integers(PEOPLE, size=count)
    light = rng.uniform(0.8, 1.1, (count, 1, 1, 1))
    grid = np.clip(own[owners] * light + rng.normal(0, 4, (count, 4, 4, 3)), 0, 255)
    return grid.repeat(cell, 1).repeat(cell, 2).astype(np.uint8), owners.astype(np.int64)


def pairs(count: int, seed: int, cell: int = 28) -> Pairs:
    """A protection that can be undone: halved and mirrored grey values."""
    clear, owners = pictures(count, seed, cell)
    return Pairs((128 - clear // 2).astype(np.uint8), clear, owners)


def test_the_inverter_undoes_a_weak_protection_on_pictures_it_never_saw(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    net, steps = fit_inverter(
        pairs(64, 1, cell=8), budget=Budget(2, max_steps=80, batch=8), seed=0, progress=silent
    )
    test = pairs(8, 2, cell=8)
    guessed = inverted(net, list(test.seen))
    before = np.mean([psnr(*pair) for pair in zip(test.seen, test.clear, strict=True)])
    after = np.mean([psnr(*pair) for pair in zip(guessed, test.clear, strict=True)])
    assert steps == 80
    assert after > before + 2
    save(net, tmp_path / "net.pt")
    again = InverterNet()
    load(again, tmp_path / "net.pt")
    assert np.array_equal(inverted(again, list(test.seen)), guessed)


def test_the_recogniser_learns_to_tell_protected_people_apart() -> None:
    torch.set_num_threads(1)
    known = np.linalg.qr(np.random.default_rng(3).normal(size=(128, 128)))[0][:PEOPLE].astype(np.float32)
    train, test = pairs(64, 1), pairs(16, 2)
    before, after, _ = fit_recogniser(
        train, known[train.owners], budget=Budget(2, max_steps=60, batch=4), seed=0, progress=silent
    )
    assert isinstance(before, RecogniserNet)
    vectors = described(after, list(test.seen))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(16), abs=1e-5)
    hits = (vectors @ known.T).argmax(1) == test.owners
    assert hits.mean() > 0.7
