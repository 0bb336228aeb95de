from __future__ import annotations

import numpy as np
import pytest

from models.train.targets import Kind, Region, hide_regions, shut_bands


@pytest.mark.parametrize(
    ("height", "bands"),
    [
        (14, 2),  # cell 4 pixels: bands 0 (1-2 px) and 1 (2-4 px)
        (40, 4),  # cell 11.4
        (112, 5),  # cell 32
        (224, 6),  # cell 64: everything
        (400, 6),  # there are no more bands
    ],
)
def test_a_face_keeps_at_most_three_and_a_half_cells_of_its_height(height: int, bands: int) -> None:
    region = Region(Kind.FACE, 64, 64, height * 0.8, height)
    shut, importance = shut_bands([region], 512, 512, 6)
    assert importance[0, 8, 8] == pytest.approx(min(8, max(1, 160 / height)))
    assert shut[:, 8, 8].tolist() == [1.0] * bands + [0.0] * (6 - bands)
    assert shut[:, 0, 0].sum() == 0


def test_a_hidden_face_has_no_detail_and_one_tone_for_everybody() -> None:
    rng = np.random.default_rng(0)
    dark = rng.integers(20, 60, (128, 128, 3), dtype=np.uint8)
    pale = rng.integers(190, 240, (128, 128, 3), dtype=np.uint8)
    region = Region(Kind.FACE, 14, 14, 100, 100)
    centres = []
    for face in (dark, pale):
        source = np.full((512, 512, 3), 120, np.uint8)
        source[:128, :128] = face
        target = source.copy()
        hide_regions(target, source, [region])
        inner = target[40:90, 40:90]
        assert inner.std(axis=(0, 1)).max() < 6
        centres.append(inner.mean())
    # 175 grey levels apart before, less than half of that after.
    assert abs(centres[0] - centres[1]) < 175 / 2


def test_regions_outside_the_picture_are_ignored() -> None:
    target = np.zeros((64, 64, 3), np.uint8)
    hide_regions(
        target, target.copy(), [Region(Kind.TEXT, -50, -50, 20, 20), Region(Kind.PLATE, 63, 63, 9, 9)]
    )
    assert shut_bands([Region(Kind.FACE, 70, 70, 5, 5)], 64, 64, 6)[0].sum() == 0
