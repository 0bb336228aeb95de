"""Writes hog_golden.json beside it: what OpenCV 4's own HOGDescriptor says of two pictures (needs 4.x)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent


def pattern() -> npt.NDArray[np.uint8]:
    """The picture that test_hog_features.py draws too: gradients of every direction and strength."""
    y, x, channel = np.mgrid[0:136, 0:80, 0:3]
    picture: npt.NDArray[np.uint8] = ((x * 7 + y * 13 + x * y // (channel + 3) + 40 * channel) % 256).astype(
        np.uint8
    )
    return picture


if __name__ == "__main__":
    opencv: Any = cv2  # release 5's types know no HOGDescriptor
    hog = opencv.HOGDescriptor()
    hog.setSVMDetector(opencv.HOGDescriptor_getDefaultPeopleDetector())
    street = cv2.imread(str(HERE / "street.png"))
    result: dict[str, object] = {"opencv": cv2.__version__}
    for name, picture in (("pattern", pattern()), ("street", street)):
        values = hog.compute(picture, winStride=(8, 8), padding=(0, 0)).reshape(-1, 3780)
        _, margins = hog.detect(picture, hitThreshold=-100, winStride=(8, 8), padding=(0, 0))
        result[name] = {
            "first_window": [round(float(v), 6) for v in values[0][::20]],
            "last_window": [round(float(v), 6) for v in values[-1][::20]],
            "margins": [round(float(m), 5) for m in np.ravel(margins)],
        }
    (HERE / "hog_golden.json").write_text(json.dumps(result) + "\n")
