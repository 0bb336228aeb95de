from __future__ import annotations

from fractions import Fraction

from camera.sources.timeline import Timeline

MS = Fraction(1, 1000)
START_US = 1_700_000_000_000_000


def shift_all(timeline: Timeline, pairs: list[tuple[int, int]]) -> list[tuple[int | None, int | None]]:
    """(pts, dts) in milliseconds, 40 ms long."""
    return [timeline.shift(0, pts, dts, 40, MS) for pts, dts in pairs]


def test_the_first_pass_keeps_its_timestamps() -> None:
    assert shift_all(Timeline(), [(80, 0), (40, 40)]) == [(80, 0), (40, 40)]


def test_a_loop_goes_on_where_the_pass_before_ended() -> None:
    timeline = Timeline()
    pairs = [(0, 0), (40, 40), (80, 80)]
    shift_all(timeline, pairs)
    timeline.begin_pass()
    assert shift_all(timeline, pairs) == [(120, 120), (160, 160), (200, 200)]
    timeline.begin_pass()
    assert shift_all(timeline, pairs)[0] == (240, 240)


def test_a_loop_with_reordered_pictures_has_no_gap_and_dts_rise() -> None:
    timeline = Timeline()
    pairs = [(0, -80), (120, -40), (40, 0), (80, 40)]  # I P B B
    first = shift_all(timeline, pairs)
    timeline.begin_pass()
    second = shift_all(timeline, pairs)
    assert [pts for pts, _ in second] == [160, 280, 200, 240]
    stamps = [dts for _, dts in first + second if dts is not None]
    assert stamps == sorted(set(stamps))


def test_audio_that_outlasts_the_video_moves_the_next_pass() -> None:
    timeline = Timeline()
    timeline.shift(0, 0, 0, 40, MS)
    timeline.shift(1, 90, 90, 20, MS)
    timeline.begin_pass()
    assert timeline.shift(0, 0, 0, 40, MS) == (110, 110)


def test_a_reconnect_takes_the_wall_clock() -> None:
    timeline = Timeline()
    timeline.shift(0, 5000, 5000, 40, MS)
    timeline.start_at(5_000_000, START_US)
    timeline.begin_pass(now_unix_us=START_US + 30_000_000)
    assert timeline.shift(0, 0, 0, 40, MS) == (35_000, 35_000)
    assert timeline.time_us(35_000_000) == START_US + 30_000_000


def test_attempts_that_bring_nothing_do_not_hold_the_clock_back() -> None:
    timeline = Timeline()
    timeline.shift(0, 0, 0, 40, MS)
    timeline.start_at(0, START_US)
    for seconds in (1, 60, 3600):  # an hour without the camera
        timeline.begin_pass(now_unix_us=START_US + seconds * 1_000_000)
    assert timeline.shift(0, 77, 77, 40, MS) == (3_600_000, 3_600_000)
    assert timeline.time_us(3_600_000_000) == START_US + 3_600_000_000


def test_attempts_before_the_first_picture_move_nothing() -> None:
    timeline = Timeline()
    timeline.begin_pass(now_unix_us=START_US)
    assert timeline.shift(0, 77, 77, 40, MS) == (77, 77)


def test_a_reconnect_never_goes_back() -> None:
    timeline = Timeline()
    timeline.shift(0, 0, 0, 40, MS)
    timeline.start_at(0, START_US)
    timeline.begin_pass(now_unix_us=START_US - 999_000_000)
    assert timeline.shift(0, 77, 77, 40, MS) == (40, 40)


def test_capture_time_is_one_constant_offset_from_source_time() -> None:
    timeline = Timeline()
    timeline.start_at(1_000_000, START_US)
    times = [timeline.time_us(us) for us in (1_000_000, 1_033_366, 1_900_000)]
    assert [t - START_US for t in times] == [0, 33_366, 900_000]
    assert timeline.source_us(times[1]) == 1_033_366


def test_capture_times_rise_strictly() -> None:
    timeline = Timeline()
    timeline.start_at(0, START_US)
    times = [timeline.time_us(us) for us in (100, 100, 50, 101, 200)]
    assert [t - START_US for t in times] == [100, 101, 102, 103, 200]


def test_missing_timestamps_stay_missing() -> None:
    assert Timeline().shift(0, None, None, None, MS) == (None, None)
