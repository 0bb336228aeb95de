from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from base.errors import UsageError
from base.frames import ProtectedFrame
from codec.access_unit import AccessUnit
from codec.h264 import ColourTags, ProtectedEncoder, level_for
from codec.nal import NalType, nal_type, unescape
from tests.codec.media import FRAME_US, HEIGHT, START_US, WIDTH, ffmpeg, ffprobe, protected_frame


def encode(count: int, keys: tuple[int, ...] = (), **options: object) -> list[AccessUnit]:
    with ProtectedEncoder(WIDTH, HEIGHT, **options) as encoder:  # type: ignore[arg-type]
        return [encoder.encode(protected_frame(n), n in keys) for n in range(count)]


def encode_ahead(count: int, keys: tuple[int, ...]) -> list[AccessUnit]:
    """As a file is coded: everything that waits is taken before a key frame."""
    units: list[AccessUnit] = []
    with ProtectedEncoder(WIDTH, HEIGHT, lookahead=10) as encoder:
        for number in range(count):
            if number in keys:
                units += encoder.flush()
                assert len(units) == number
            units += encoder.push(protected_frame(number), number in keys)
            assert number - 10 <= len(units) <= number + 1
        return units + encoder.flush()


def stream_file(units: list[AccessUnit], folder: Path) -> Path:
    path = folder / "stream.h264"
    path.write_bytes(b"".join(unit.annexb() for unit in units))
    return path


def test_key_frames_come_first_and_when_asked_and_never_by_themselves() -> None:
    noise = np.random.default_rng(1)
    with ProtectedEncoder(WIDTH, HEIGHT) as encoder:
        keys = []
        for number in range(400):
            plain = protected_frame(number)
            # A cut to noise every 20 pictures would make a scene cut key frame.
            luma = (
                noise.integers(16, 235, plain.luma_hw.shape, np.uint8) if number % 20 == 7 else plain.luma_hw
            )
            frame = ProtectedFrame(luma, plain.cb_hw, plain.cr_hw, plain.time_us)
            if encoder.encode(frame, number == 33).is_keyframe:
                keys.append(number)
    assert keys == [0, 33]


def test_with_lookahead_every_frame_has_one_unit_in_order_and_keys_stay_where_they_were_asked_for() -> None:
    units = encode_ahead(45, keys=(20, 21, 40))
    assert [unit.pts_us for unit in units] == [protected_frame(number).time_us for number in range(45)]
    assert [number for number, unit in enumerate(units) if unit.is_keyframe] == [0, 20, 21, 40]
    kinds = [[nal_type(nal) for nal in unit.nals] for unit in units]
    key = [NalType.SPS, NalType.PPS, NalType.IDR]
    assert kinds[20:22] == [key, key]
    assert kinds[1:20] == [[NalType.SLICE]] * 19


def test_with_lookahead_the_stream_plays_like_the_one_without(tmp_path: Path) -> None:
    shown = []
    for units in (encode(45, (20, 40)), encode_ahead(45, (20, 40))):
        with av.open(str(stream_file(units, tmp_path)), "r") as container:
            shown.append([frame.to_ndarray(format="gray") for frame in container.decode(video=0)])
    assert len(shown[0]) == len(shown[1]) == 45
    differences = [abs(one.astype(int) - two).mean() for one, two in zip(*shown, strict=True)]
    assert max(differences) < 3


def test_without_lookahead_there_is_nothing_to_flush_and_flushing_ends_nothing() -> None:
    with ProtectedEncoder(WIDTH, HEIGHT) as encoder:
        for number in range(3):
            assert encoder.flush() == []
            assert encoder.encode(protected_frame(number)).is_keyframe == (number == 0)


def test_each_key_unit_begins_with_parameter_sets_and_no_unit_has_sei() -> None:
    kinds = [[nal_type(nal) for nal in unit.nals] for unit in encode(5, (3,))]
    key, delta = [NalType.SPS, NalType.PPS, NalType.IDR], [NalType.SLICE]
    assert kinds == [key, delta, delta, key, delta]


def test_stream_is_constrained_baseline_of_the_level_for_its_size() -> None:
    profile_idc, constraints, level_idc = encode(1)[0].nals[0][1:4]
    assert (profile_idc, constraints & 0xE0, level_idc) == (66, 0xC0, 31)


def test_units_carry_the_frames_times_even_when_those_stand_still_or_jump() -> None:
    times = [5, 5, 1_700_000_000_000_000, 0]
    with ProtectedEncoder(WIDTH, HEIGHT) as encoder:
        for time_us in times:
            frame = protected_frame(0)
            unit = encoder.encode(ProtectedFrame(frame.luma_hw, frame.cb_hw, frame.cr_hw, time_us))
            assert unit.pts_us == time_us


def test_ffmpeg_decodes_every_unit_without_a_complaint(tmp_path: Path) -> None:
    path = stream_file(encode(20, (9,)), tmp_path)
    stream = ffprobe(path, count_frames=True)["streams"][0]
    assert stream["nb_read_frames"] == "20"
    assert (stream["profile"], stream["width"], stream["height"]) == ("Constrained Baseline", WIDTH, HEIGHT)
    assert stream["has_b_frames"] == 0


def test_samples_are_not_converted_on_the_way_in(tmp_path: Path) -> None:
    path = stream_file(encode(1, crf=1), tmp_path)
    decoded = ffmpeg("-i", path, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
    frame = protected_frame(0)
    planes = b"".join(plane.tobytes() for plane in (frame.luma_hw, frame.cb_hw, frame.cr_hw))
    error = np.frombuffer(decoded, np.uint8).astype(int) - np.frombuffer(planes, np.uint8)
    assert abs(error).max() <= 3


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (ColourTags(), ("bt709", "bt709", "bt709", "tv")),
        (ColourTags(6, 6, 6, full_range=True), ("smpte170m", "smpte170m", "smpte170m", "pc")),
    ],
)
def test_vui_says_the_configured_colours(tmp_path: Path, tags: ColourTags, expected: tuple[str, ...]) -> None:
    stream = ffprobe(stream_file(encode(2, colour=tags), tmp_path))["streams"][0]
    told = tuple(stream[key] for key in ("color_primaries", "color_transfer", "color_space", "color_range"))
    assert told == expected


def test_max_bitrate_bounds_a_stream_of_noise() -> None:
    noise = np.random.default_rng(3)
    bits = 0
    with ProtectedEncoder(320, 192, rate=25, crf=18, max_bitrate_bps=400_000, buffer_ms=500) as encoder:
        for number in range(50):
            luma = noise.integers(16, 235, (192, 320), np.uint8)
            chroma = np.full((96, 160), 128, np.uint8)
            bits += 8 * encoder.encode(ProtectedFrame(luma, chroma, chroma, number)).num_bytes
    assert bits <= 1.2 * (400_000 * 2 + 200_000)


def test_slices_follow_the_threads() -> None:
    units = encode(3, threads=2)
    assert all(sum(nal_type(nal) in (NalType.SLICE, NalType.IDR) for nal in u.nals) == 2 for u in units)


@pytest.mark.parametrize(
    ("size", "rate", "level"),
    [
        ((640, 480), 30, 31),  # would be 3.0
        ((1280, 720), 30, 31),
        ((1280, 720), 60, 32),
        ((1920, 1080), 30, 40),
        ((1920, 1080), 60, 42),
        ((2560, 1440), 30, 50),
        ((3840, 2160), 30, 51),
        ((7680, 4320), 60, 61),  # 129600 * 60 = 7776000 macroblocks a second
    ],
)
def test_level_is_that_of_table_a_1(size: tuple[int, int], rate: int, level: int) -> None:
    assert level_for(*size, Fraction(rate)) == level


def test_level_beyond_the_table_is_refused() -> None:
    with pytest.raises(UsageError, match="above every"):
        level_for(16384, 16384, Fraction(30))


@pytest.mark.parametrize("size", [(0, 64), (63, 64), (64, 63)])
def test_odd_and_empty_sizes_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="even width and height"):
        ProtectedEncoder(*size)


def test_unknown_preset_is_refused() -> None:
    with pytest.raises(UsageError, match="x264 refuses"):
        ProtectedEncoder(WIDTH, HEIGHT, preset="warp")


def test_frame_of_another_size_and_closed_encoder_are_refused() -> None:
    encoder = ProtectedEncoder(WIDTH, HEIGHT)
    with pytest.raises(UsageError, match="expected 96x64, got 32x32"):
        encoder.encode(protected_frame(0, 32, 32))
    encoder.close()
    with pytest.raises(UsageError, match="closed"):
        encoder.encode(protected_frame(0))


def test_no_trace_of_the_encoder_is_left_in_the_stream() -> None:
    data = b"".join(unit.annexb() for unit in encode(3))
    assert b"x264" not in unescape(data)


def test_units_begin_where_decoding_may_begin() -> None:
    units = encode(10, (4,))
    decoder = av.CodecContext.create("h264", "r")
    frames = []
    for unit in units[4:]:
        packet = av.Packet(unit.annexb())
        frames += decoder.decode(packet)
    frames += decoder.decode(None)
    assert len(frames) == 6
    assert units[4].pts_us == START_US + 4 * FRAME_US


def test_without_adaptive_quantisation_texture_is_coded_better_and_what_is_flat_worse() -> None:
    texture, flat = np.s_[:, : WIDTH // 2], np.s_[:, WIDTH // 2 :]
    luma = np.random.default_rng(3).integers(60, 190, (HEIGHT, WIDTH), np.uint8)
    ramp = np.linspace(90, 150, HEIGHT * (WIDTH - WIDTH // 2)).reshape(HEIGHT, -1)
    luma[flat] = np.rint(ramp + np.random.default_rng(4).normal(0, 2, ramp.shape))
    grey = np.full((HEIGHT // 2, WIDTH // 2), 128, np.uint8)
    errors = []
    for adaptive in (True, False):
        with ProtectedEncoder(WIDTH, HEIGHT, crf=30, adaptive=adaptive) as encoder:
            unit = encoder.encode(ProtectedFrame(luma, grey, grey, 0))
        decoder = av.CodecContext.create("h264", "r")
        (shown,) = [*decoder.decode(av.Packet(unit.annexb())), *decoder.decode(None)]
        wrong = (shown.to_ndarray()[:HEIGHT].astype(np.float64) - luma) ** 2
        errors.append((wrong[texture].mean(), wrong[flat].mean()))
    (adaptive_texture, adaptive_flat), (plain_texture, plain_flat) = errors
    assert plain_texture < adaptive_texture
    assert plain_flat > adaptive_flat
