from __future__ import annotations

import pytest

from base.errors import UsageError
from forensics.selection import TimePoint, TimeRange, iso_time, parse_range, parse_time


@pytest.mark.parametrize(
    ("text", "micros", "is_absolute"),
    [
        ("0", 0, False),
        ("12.5", 12_500_000, False),
        ("0.000001", 1, False),
        ("00:01:02", 62_000_000, False),
        ("100:00:00.25", 360_000_250_000, False),
        ("1970-01-01T00:00:01Z", 1_000_000, True),
        ("2026-11-30T12:00:00+01:00", 1_796_036_400_000_000, True),
        ("2026-11-30 11:00:00.123456Z", 1_796_036_400_123_456, True),
    ],
)
def test_every_documented_form_is_read_exactly(text: str, micros: int, is_absolute: bool) -> None:
    assert parse_time(text) == TimePoint(micros, is_absolute)


@pytest.mark.parametrize(
    "text", ["", "soon", "-1", "1:60:00", "1.1234567", "2026-11-30T12:00:00", "nan", "12,5"]
)
def test_anything_else_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_time(text)


@pytest.mark.parametrize("text", ["2026-11-30", "2026-11-30T12:00:00", "2026-11-30 12:00"])
def test_the_example_in_the_message_is_a_time(text: str) -> None:
    with pytest.raises(UsageError, match="needs a time zone") as caught:
        parse_time(text)
    assert parse_time(str(caught.value).rsplit(" ", 1)[1]).is_absolute


def test_offsets_count_from_the_start_of_the_recording() -> None:
    chosen = parse_range("1", "1970-01-01T00:00:09Z")
    assert chosen.resolve(5_000_000) == (6_000_000, 9_000_000)
    assert parse_range(None, "") == TimeRange(None, None)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(UsageError, match="not before its end"):
        parse_range("2", "2").resolve(0)


def test_times_that_no_calendar_holds_are_still_printed() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00.000000Z"
    assert iso_time(2**62) == f"{2**62}us"
