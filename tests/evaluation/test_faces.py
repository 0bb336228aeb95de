from __future__ import annotations

import numpy as np

from evaluation.faces import GREY, Face


def test_of_a_painted_out_face_nothing_is_left_but_what_surrounds_it() -> None:
    crop = np.random.default_rng(2).integers(0, 256, (112, 112, 3), np.uint8)
    left = Face(7, crop).painted_out()
    assert left.owner == 7
    # Eyes to mouth of an aligned crop (Deng et al., ArcFace, CVPR 2019).
    assert (left.crop[45:95, 36:76] == GREY).all()
    for corner in (np.s_[:8, :8], np.s_[:8, -8:], np.s_[-8:, :8], np.s_[-8:, -8:]):
        np.testing.assert_array_equal(left.crop[corner], crop[corner])
