"""A protector for tests of what surrounds it: fast, deterministic, and no protection at all."""

from __future__ import annotations

import cv2
import numpy as np

from base.frames import ClearFrame, Plane, ProtectedFrame


class BlurProtector:
    """Blurs; stands in for models.Protector where the picture does not matter."""

    model_id = b"testblur"
    backend = "blur"
    strength = 1

    def protect(self, frame: ClearFrame, *, renew: bool = False) -> ProtectedFrame:
        def blurred(plane: Plane) -> Plane:
            return np.asarray(cv2.blur(plane, (9, 9)), np.uint8)

        return ProtectedFrame(
            blurred(frame.luma_hw), blurred(frame.cb_hw), blurred(frame.cr_hw), frame.time_us
        )
