from __future__ import annotations

import pytest

from camera.stats import BUCKETS_S, Meter


def test_times_fall_into_the_bucket_that_names_their_upper_bound() -> None:
    meter = Meter()
    for seconds in (0.001, 0.0011, 0.03, 2.0):
        meter.add_time("encode", seconds)
    times = meter.stage_times()["encode"]
    assert times.count == 4
    assert times.total_s == pytest.approx(2.0321)
    assert times.mean_s == pytest.approx(2.0321 / 4)
    assert times.max_s == 2.0
    by_bound = dict(zip(BUCKETS_S, times.bucket_counts, strict=False))
    assert (by_bound[0.001], by_bound[0.002], by_bound[0.03]) == (1, 1, 1)
    assert times.bucket_counts[-1] == 1


def test_rates_are_zero_before_the_first_unit_and_count_bits_after() -> None:
    meter = Meter()
    assert meter.rates() == (0.0, 0.0)
    for _ in range(10):
        meter.published(1000)
    fps, bitrate_bps = meter.rates()
    assert fps > 0
    assert bitrate_bps == pytest.approx(8000 * fps)
    assert meter.value("bytes") == 10_000


def test_the_source_has_no_age_before_its_first_picture() -> None:
    meter = Meter()
    assert meter.source_age_s() is None
    meter.captured()
    age_s = meter.source_age_s()
    assert age_s is not None
    assert 0 <= age_s < 1
