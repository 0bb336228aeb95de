from __future__ import annotations

import numpy as np
import pytest

from base.errors import UsageError
from base.frames import ClearFrame, ProtectedFrame


def _plane(height: int, width: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.zeros((height, width), np.uint8)


def test_clear_and_protected_frames_are_not_interchangeable() -> None:
    assert not issubclass(ClearFrame, ProtectedFrame)
    assert not issubclass(ProtectedFrame, ClearFrame)


def test_odd_sizes_are_refused_with_the_size_in_the_message() -> None:
    with pytest.raises(UsageError, match="5x4"):
        ClearFrame(_plane(5, 4), _plane(2, 2), _plane(2, 2), 0)


def test_chroma_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(UsageError, match="cr plane: expected 2x2"):
        ClearFrame(_plane(4, 4), _plane(2, 2), _plane(4, 4), 0)
