from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from models.pyramid import GATE_ONE, GatedPyramid

BANDS = 6


def _plane(seed: int, height: int = 128, width: int = 192) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)


def _maps(value: int, height: int = 128, width: int = 192) -> npt.NDArray[np.uint8]:
    return np.full((BANDS, height // 8, width // 8), value, np.uint8)


def test_open_gates_without_coring_return_the_plane_exactly() -> None:
    plane = _plane(1)
    kept = GatedPyramid(128, 192, BANDS)(plane, _maps(GATE_ONE), _maps(0))
    np.testing.assert_array_equal(kept, plane)


def test_behind_shut_gates_two_pictures_with_equal_cell_means_cannot_be_told_apart() -> None:
    first = _plane(2)
    second = first.copy()
    for top in range(0, 128, 64):
        for left in range(0, 192, 64):
            cell = second[top : top + 64, left : left + 64]
            # Mirrored 2x2 blocks: other detail, the same means at every scale.
            cell[:] = cell.reshape(32, 2, 32, 2)[:, ::-1, :, ::-1].reshape(64, 64)
    assert (first != second).mean() > 0.9
    pyramid = GatedPyramid(128, 192, BANDS)
    kept = pyramid(first, _maps(0), _maps(0)).copy()
    np.testing.assert_array_equal(pyramid(second, _maps(0), _maps(0)), kept)


def test_shut_gates_leave_one_number_per_cell() -> None:
    kept = GatedPyramid(128, 192, BANDS)(_plane(3), _maps(0), _maps(0))
    # 2x3 cells of 64 pixels enlarged bilinearly: centres of noise cells all lie near the mean.
    assert int(kept.max()) - int(kept.min()) < 12


@pytest.mark.parametrize("threshold", [1, 9, 25])
def test_detail_up_to_the_threshold_is_removed(threshold: int) -> None:
    plane = np.full((128, 192), 100, np.uint8)
    plane[::2] += threshold
    kept = GatedPyramid(128, 192, 1)(plane, _maps(GATE_ONE)[:1], _maps(threshold)[:1])
    assert int(kept.max()) - int(kept.min()) <= 1


def test_half_open_gates_halve_the_detail() -> None:
    plane = np.full((128, 192), 100, np.uint8)
    plane[::2] += 40  # 2-pixel pattern: mean 120, detail -20 and +20
    kept = GatedPyramid(128, 192, 1)(plane, _maps(GATE_ONE // 2)[:1], _maps(0)[:1])
    assert set(np.unique(kept)) == {110, 130}


def test_a_call_does_not_depend_on_the_calls_before() -> None:
    pyramid = GatedPyramid(128, 192, BANDS)
    gates = np.random.default_rng(5).integers(0, GATE_ONE + 1, (BANDS, 16, 24), dtype=np.uint8)
    wanted = pyramid(_plane(6), gates, _maps(3)).copy()
    pyramid(_plane(7), _maps(0), _maps(0))
    np.testing.assert_array_equal(pyramid(_plane(6), gates, _maps(3)), wanted)
