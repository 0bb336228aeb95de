"""Boxes of a grant request from boxes and tracks as people give them."""

from __future__ import annotations

import pytest

from base.errors import UsageError
from forensics.grant_regions import request_boxes
from forensics.region_choice import RegionChoice, parse_box


def test_a_box_is_rounded_outwards_and_cut_to_the_picture() -> None:
    (box,) = request_boxes(RegionChoice((parse_box("-10,5.5,30,20"),)), 0)
    assert (box.x, box.y, box.width, box.height) == (0, 5, 20, 21)


@pytest.mark.parametrize("text", ["-50,0,20,20", "0,-40,64,40", "-20,0,20,20"])
def test_a_box_outside_the_picture_asks_for_nothing_and_is_refused(text: str) -> None:
    """Not for the column of pixels beside it, whose whole region would then be opened."""
    with pytest.raises(UsageError, match="inside a picture"):
        request_boxes(RegionChoice((parse_box(text),)), 0)
