"""From boxes and tracks, as people give them, to the boxes of a grant request. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from base.errors import UsageError
from forensics.region_choice import Box, BoxRule, RegionChoice, TrackRule
from keys.grant_terms import RegionBox

STEP_US = 1_000_000
"""A track becomes one box a second, around all its sightings of that second and the next one after it."""
_HOLD_US = 2_000_000  # trackers give an object up after so long
_SLACK_US = 50_000  # times in track files are rounded


def request_boxes(choice: RegionChoice, origin_us: int) -> tuple[RegionBox, ...]:
    """Return what ``choice`` asks for, on the clock, for a recording that starts at ``origin_us``.

    Raises:
        UsageError: a box does not fit, or there are more than 4096.
    """
    return tuple(box for rule in choice.rules for box in _boxes(rule, origin_us))


def _boxes(rule: BoxRule | TrackRule, origin_us: int) -> Iterator[RegionBox]:
    if isinstance(rule, BoxRule):
        yield _placed(rule.box, *rule.times.resolve(origin_us))
        return
    sightings = sorted((each.time.resolve(origin_us), each.box) for each in rule.sightings)
    start_us, box = sightings[0]
    last_us = start_us
    for (before_us, before), (time_us, after) in pairwise(sightings):
        last_us = before_us
        is_gap = time_us - before_us > _HOLD_US
        if not is_gap:
            box, last_us = box.around(before).around(after), time_us
        if is_gap or time_us - start_us >= STEP_US:
            yield _placed(box, start_us - _SLACK_US, last_us + _SLACK_US + 1)
            start_us, box, last_us = time_us, after, time_us
    yield _placed(box, start_us - _SLACK_US, last_us + _SLACK_US + 1)


def _placed(box: Box, start_us: int | None, end_us: int | None) -> RegionBox:
    """Round a box outwards to whole pixels; what lies left of and above the picture is cut off."""
    left, top = max(0, math.floor(box.left)), max(0, math.floor(box.top))
    right, bottom = math.ceil(box.right), math.ceil(box.bottom)
    if right <= left or bottom <= top:
        message = f"region: nothing of {tuple(box)} (left, top, right, bottom) lies inside a picture"
        raise UsageError(message)
    return RegionBox(left, top, right - left, bottom - top, start_us, end_us)
