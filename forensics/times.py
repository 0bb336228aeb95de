"""When the container shows the pictures, held against the times and the order that the camera signed.

Nothing signs a container's times, and muxers may round or shift them. They cannot rightly turn the order
around: the protected layer has no reordered pictures, so a time that goes back shows pictures in another
order than the one they were taken in. That is a contradiction. All else is for the reader of the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from codec.segments import SegmentView

MAX_SHIFT_US = 1_000_000
_WITHOUT_TIMES = "h264"  # raw: the reader counts
_MAY_RESTART = "mpegts"  # joined streams begin anew, and players follow


@dataclass(frozen=True, slots=True)
class TimesNote:
    """What is odd about the times of a segment. ``is_reordered``: they contradict the signed order."""

    text: str
    is_reordered: bool = False


@dataclass(frozen=True, slots=True)
class _Shown:
    """One picture of a segment: Unix microseconds of capture, and the container's own time."""

    frame_index: int
    captured_us: int
    shown_us: int


class ContainerTimes:
    """Takes the segments of a file in the order read; remembers one time."""

    def __init__(self, container: str) -> None:
        """Take libav's name of the format."""
        self._has_times = container != _WITHOUT_TIMES
        self._may_restart = container == _MAY_RESTART
        self._last_us: int | None = None

    def check(self, view: SegmentView) -> tuple[TimesNote, ...]:
        """What is odd about the next segment: at most one note of each kind.

        The pictures are compared in the order of the file: `codec.verify` finds it if that is another one
        than signed.
        """
        shown = [
            _Shown(frame.frame_index, frame.time_us, viewed.unit.pts_us) for frame, viewed in view.own_units()
        ]
        if not self._has_times or not shown:
            return ()
        notes = (*self._start(shown[0]), *_order(shown), *_shift(shown))
        self._last_us = max(each.shown_us for each in shown)
        return notes

    def _start(self, first: _Shown) -> Iterator[TimesNote]:
        if self._last_us is not None and first.shown_us < self._last_us:
            back = _seconds(self._last_us - first.shown_us)
            text = f"shown {back} before the end of the segment that it follows"
            yield TimesNote(text, is_reordered=not self._may_restart)


def _order(shown: Sequence[_Shown]) -> Iterator[TimesNote]:
    steps = [(later, later.shown_us - sooner.shown_us) for sooner, later in pairwise(shown)]
    back = [(each, step_us) for each, step_us in steps if step_us < 0]
    if back:
        each, step_us = back[0]
        text = f"frame {each.frame_index}: shown {_seconds(-step_us)} before the picture that it follows"
        yield TimesNote(f"{text}; {len(back)} such in the segment", is_reordered=True)
    same = [each for each, step_us in steps if step_us == 0]
    if same:
        yield TimesNote(f"frame {same[0].frame_index}: shown at the time of the picture that it follows")


def _shift(shown: Sequence[_Shown]) -> Iterator[TimesNote]:
    first = shown[0]
    for each in shown:
        shift_us = (each.shown_us - first.shown_us) - (each.captured_us - first.captured_us)
        if abs(shift_us) > MAX_SHIFT_US:
            direction = "late" if shift_us > 0 else "early"
            text = (
                f"shown {_seconds(abs(shift_us))} too {direction}, counted from the segment's first picture"
            )
            yield TimesNote(f"frame {each.frame_index}: {text}")
            return


def _seconds(time_us: int) -> str:
    return f"{time_us / 1e6:.3f} s"
