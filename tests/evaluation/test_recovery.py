"""The key part tells a path that needs its key from one that does not; recovery reports what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from base.frames import ClearFrame, ProtectedFrame
from evaluation import EvaluationSettings, evaluate
from evaluation.sample import make_sample
from tests.evaluation.test_run import CLIP

BLOCK = 16


class Mosaic:
    """A crude pixel path: the original as a mosaic, its blocks in an order that the key gives."""

    key_bytes = 16

    def __init__(self, *, keyed: bool) -> None:
        self.name = "mosaic"
        self._keyed = keyed

    def hide(self, frames: Iterable[ClearFrame], key: bytes) -> Iterator[ProtectedFrame]:
        for frame in frames:
            small = frame.luma_hw[BLOCK // 2 :: BLOCK, BLOCK // 2 :: BLOCK]
            mixed = small.ravel()[self._order(key, small.size)].reshape(small.shape)
            yield ProtectedFrame(_enlarged(mixed, frame), frame.cb_hw, frame.cr_hw, frame.time_us)

    def reveal(self, frames: Iterable[ProtectedFrame], key: bytes) -> Iterator[ClearFrame]:
        for frame in frames:
            mixed = frame.luma_hw[BLOCK // 2 :: BLOCK, BLOCK // 2 :: BLOCK]
            small = np.empty(mixed.size, np.uint8)
            small[self._order(key, mixed.size)] = mixed.ravel()
            yield ClearFrame(
                _enlarged(small.reshape(mixed.shape), frame), frame.cb_hw, frame.cr_hw, frame.time_us
            )

    def _order(self, key: bytes, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        seed = int.from_bytes(key, "big") if self._keyed else 0
        return np.random.default_rng(seed).permutation(count)


def _enlarged(
    small: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], frame: ClearFrame | ProtectedFrame
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return small.repeat(BLOCK, 0).repeat(BLOCK, 1)[: frame.height, : frame.width]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(CLIP, tmp_path_factory.mktemp("sample"))


@pytest.mark.parametrize("keyed", [True, False])
def test_wrong_keys_help_only_where_the_key_does_not_matter(
    sample: Path, tmp_path: Path, keyed: bool
) -> None:
    settings = EvaluationSettings(data=sample, out=tmp_path, only=("keys",), quick=True, clip_frames=2)
    (part,) = evaluate(settings, pixel_paths={"toy": Mosaic(keyed=keyed)}).parts
    (table,) = part.tables
    rows = {row.name: row for row in table.rows}
    assert set(rows) == {"one bit off", "zero", "random", "mean over four random keys"}
    for name in ("one bit off", "zero", "random"):
        right = rows[name].clear
        assert right is not None
        assert (rows[name].value < right - 3) is keyed, name


def test_recovery_reports_the_sealed_layer_and_every_pixel_path(sample: Path, tmp_path: Path) -> None:
    settings = EvaluationSettings(data=sample, out=tmp_path, only=("recovery",), quick=True, clip_frames=2)
    (part,) = evaluate(settings, pixel_paths={"toy": Mosaic(keyed=True)}).parts
    whole = {row.name: row.value for row in part.tables[0].rows}
    assert whole["sealed av1 (default)"] > 33  # the encoder's own quality at these settings
    assert whole["sealed av1 (default)"] > whole["pixels toy"]
    assert part.tables[-1].title == "Bits that the pixel path adds to the protected layer"
