from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import cv2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import MediaError, UsageError
from codec.access_unit import AccessUnit
from codec.container import ContainerWriter, Fmp4Writer, _rounded, read_access_units
from codec.limits import Limits
from codec.muxer import rescale
from codec.nal import NalType, nal_type
from tests.codec.media import (
    BIG_SEI_BYTES,
    FRAME_US,
    HEIGHT,
    RATE,
    WIDTH,
    ffmpeg,
    ffprobe,
    kept_nals,
    protected_units,
    source_file,
)

WRITTEN = (".mp4", ".mkv", ".ts", ".mov", ".h264")
UNITS = protected_units()


def write(path: Path, units: tuple[AccessUnit, ...] = UNITS) -> Path:
    with ContainerWriter(path, WIDTH, HEIGHT, rate=RATE) as writer:
        for unit in units:
            writer.write(unit)
    return path


def read(path: Path) -> list[AccessUnit]:
    with read_access_units(path) as reader:
        units = list(reader)
        assert reader.problems == ()
    return units


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same units in each container that we write."""
    folder = tmp_path_factory.mktemp("written")
    return {suffix: write(folder / f"video{suffix}") for suffix in WRITTEN}


@pytest.mark.parametrize("suffix", WRITTEN)
def test_every_nal_unit_and_time_comes_back(files: dict[str, Path], suffix: str) -> None:
    units = read(files[suffix])
    assert kept_nals(units) == kept_nals(UNITS)
    assert [unit.is_keyframe for unit in units] == [unit.is_keyframe for unit in UNITS]
    for number, unit in enumerate(units):
        assert abs(unit.pts_us - units[0].pts_us - number * FRAME_US) <= 1000
    assert UNITS[0].num_bytes > BIG_SEI_BYTES


@pytest.mark.parametrize("suffix", WRITTEN)
@pytest.mark.parametrize("target", [".mp4", ".mkv", ".ts", ".flv"])
def test_every_nal_unit_survives_ffmpegs_remux(
    files: dict[str, Path], tmp_path: Path, suffix: str, target: str
) -> None:
    path = tmp_path / f"copy{target}"
    ffmpeg("-i", files[suffix], "-c", "copy", path)
    assert kept_nals(read(path)) == kept_nals(UNITS)


def test_every_nal_unit_survives_a_chain_of_containers(files: dict[str, Path], tmp_path: Path) -> None:
    path = files[".mp4"]
    for number, target in enumerate((".ts", ".mkv", ".flv", ".mov", ".ts", ".avi", ".mp4", ".h264")):
        following = tmp_path / f"{number}{target}"
        ffmpeg("-i", path, "-c", "copy", following)
        path = following
        assert kept_nals(read(path)) == kept_nals(UNITS), target


@pytest.mark.parametrize("suffix", WRITTEN)
def test_ffmpeg_decodes_every_picture_without_a_complaint(files: dict[str, Path], suffix: str) -> None:
    stream = ffprobe(files[suffix], count_frames=True)["streams"][0]
    assert (stream["nb_read_frames"], stream["codec_name"]) == (str(len(UNITS)), "h264")
    assert (stream["width"], stream["height"]) == (WIDTH, HEIGHT)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
def test_opencv_decodes_every_picture(files: dict[str, Path], suffix: str) -> None:
    capture = cv2.VideoCapture(str(files[suffix]))
    count = 0
    while capture.read()[0]:
        count += 1
    capture.release()
    assert count == len(UNITS)


def test_file_tells_its_length_and_seeks(files: dict[str, Path]) -> None:
    duration = float(ffprobe(files[".mp4"])["format"]["duration"])
    assert duration == pytest.approx(len(UNITS) / RATE, abs=0.001)
    raw = ffmpeg("-ss", "1.6", "-i", files[".mp4"], "-f", "rawvideo", "-")
    assert len(raw) == (len(UNITS) - 16) * WIDTH * HEIGHT * 3 // 2


@pytest.mark.parametrize("suffix", WRITTEN)
def test_same_units_give_the_same_bytes(files: dict[str, Path], tmp_path: Path, suffix: str) -> None:
    assert write(tmp_path / f"again{suffix}").read_bytes() == files[suffix].read_bytes()


def test_parameter_sets_of_the_container_are_told_and_put_back(tmp_path: Path) -> None:
    sets = UNITS[0].parameter_sets()
    first, *rest = UNITS
    stripped = [
        AccessUnit.from_nals([nal for nal in unit.nals if nal not in sets], unit.pts_us) for unit in rest
    ]
    path = write(tmp_path / "a.mkv", (first, *stripped))
    with read_access_units(path) as reader:
        assert reader.track.parameter_sets == sets
        assert kept_nals(reader) == kept_nals(UNITS)


def test_track_says_size_and_rate(files: dict[str, Path]) -> None:
    for path in files.values():
        with read_access_units(path) as reader:
            assert (reader.track.width, reader.track.height) == (WIDTH, HEIGHT)
            assert float(reader.track.rate) == pytest.approx(RATE, rel=0.01)


def test_file_objects_are_read_too(files: dict[str, Path]) -> None:
    for path in files.values():
        assert kept_nals(read_access_units(io.BytesIO(path.read_bytes()))) == kept_nals(UNITS)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".flv", ".mov"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.97])
def test_cut_file_gives_what_is_there_and_says_that_it_was_cut(
    files: dict[str, Path], tmp_path: Path, suffix: str, share: float
) -> None:
    whole = tmp_path / f"whole{suffix}"
    faststart = ["-movflags", "+faststart"] if suffix == ".mov" else []
    ffmpeg("-i", files[".mp4"], "-c", "copy", *faststart, whole)
    data = whole.read_bytes() if suffix != ".mp4" else files[".mp4"].read_bytes()
    path = tmp_path / f"cut{suffix}"
    path.write_bytes(data[: int(len(data) * share)])
    with read_access_units(path) as reader:
        units = list(reader)
        assert reader.problems
        assert not reader.last_may_be_cut
    assert kept_nals(units) == kept_nals(UNITS)[: len(units)]
    assert len(units) >= int(len(UNITS) * share) - 8


@pytest.mark.parametrize("suffix", [".ts", ".h264"])
def test_cut_stream_gives_what_is_there_and_says_that_its_last_unit_may_be_cut(
    files: dict[str, Path], tmp_path: Path, suffix: str
) -> None:
    data = files[suffix].read_bytes()
    path = tmp_path / f"cut{suffix}"
    path.write_bytes(data[: len(data) // 2])
    with read_access_units(path) as reader:
        units = list(reader)
        assert reader.last_may_be_cut
    assert kept_nals(units)[:-1] == kept_nals(UNITS)[: len(units) - 1]
    assert len(units) >= 8


def test_damaged_unit_is_left_out_and_told(files: dict[str, Path], tmp_path: Path) -> None:
    data = bytearray(files[".mp4"].read_bytes())
    sample = UNITS[3].avcc()
    place = data.index(sample)
    data[place] = 0x7F  # a NAL length far past the end
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    with read_access_units(path) as reader:
        units = list(reader)
        (problem,) = reader.problems
    assert kept_nals(units) == kept_nals(UNITS[:3] + UNITS[4:])
    assert problem.at_us == 3 * FRAME_US


def test_unit_above_the_limit_is_left_out_and_told(files: dict[str, Path]) -> None:
    with read_access_units(files[".mp4"], Limits(max_unit_bytes=100_000)) as reader:
        units = list(reader)
        reasons = [problem.reason for problem in reader.problems]
    assert len(units) == len(UNITS) - 3
    assert len(reasons) == 3 and all("limit is 100000" in reason for reason in reasons)


def test_what_is_not_h264_video_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"no H\.264 video; found hevc"):
        read_access_units(source_file(tmp_path / "a.mp4", "libx265"))
    with pytest.raises(MediaError, match="No such file"):
        read_access_units(tmp_path / "missing.mp4")
    text = tmp_path / "text.mp4"
    text.write_text("hello")
    with pytest.raises(MediaError, match="not a readable video"):
        read_access_units(text)


def test_playlists_do_not_open_other_files(files: dict[str, Path], tmp_path: Path) -> None:
    playlist = tmp_path / "list.m3u8"
    playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{files['.ts']}\n#EXT-X-ENDLIST\n")
    concat = tmp_path / "list.mp4"
    concat.write_text(f"ffconcat version 1.0\nfile '{files['.ts']}'\n")
    for path in (playlist, concat):
        with pytest.raises(MediaError, match="not a readable video"):
            read_access_units(path)


def test_credentials_of_a_url_stay_out_of_the_message() -> None:
    with pytest.raises(MediaError) as caught:
        read_access_units("http://user:hunter2@127.0.0.1:9/a.mp4?token=hunter2")
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1:9/a.mp4" in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(WRITTEN))
def test_random_bytes_after_any_head_never_crash(files: dict[str, Path], data: bytes, suffix: str) -> None:
    head = files[suffix].read_bytes()[:1500]
    for source in (data, head[: len(data) * 3] + data):
        try:
            list(read_access_units(io.BytesIO(source)))
        except MediaError:
            continue


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=12),
    st.sampled_from(WRITTEN),
)
def test_flipped_bytes_never_crash(
    files: dict[str, Path], changes: list[tuple[float, int]], suffix: str
) -> None:
    data = bytearray(files[suffix].read_bytes())
    for place, value in changes:
        data[int(place**3 * len(data))] = value
    try:
        for unit in read_access_units(io.BytesIO(bytes(data))):
            assert unit.has_picture
    except MediaError:
        pass


def test_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    for suffix in WRITTEN:
        path = tmp_path / f"video{suffix}"
        with pytest.raises(RuntimeError), ContainerWriter(path, WIDTH, HEIGHT) as writer:
            for unit in UNITS[:10]:
                writer.write(unit)
            assert not path.exists()
            raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a name that ends in \.mp4"):
        ContainerWriter(tmp_path / "video.webm", WIDTH, HEIGHT)


@pytest.mark.parametrize("suffix", WRITTEN)
def test_first_unit_without_parameter_sets_is_refused(tmp_path: Path, suffix: str) -> None:
    with (
        pytest.raises(MediaError, match="expected SPS and PPS"),
        ContainerWriter(tmp_path / f"a{suffix}", WIDTH, HEIGHT) as writer,
    ):
        writer.write(UNITS[1])
    assert list(tmp_path.iterdir()) == []


def test_times_that_repeat_or_go_back_still_give_a_playable_file(tmp_path: Path) -> None:
    times = [5_000_000, 5_000_000, 4_000_000, 5_100_000, 9_000_000, 9_000_001, 9_000_001, 9_100_000]
    units = tuple(AccessUnit(u.nals, t, u.is_keyframe) for u, t in zip(UNITS, times, strict=False))
    for suffix in WRITTEN:
        path = write(tmp_path / f"a{suffix}", units)
        assert kept_nals(read(path)) == kept_nals(units)
        assert ffprobe(path, count_frames=True)["streams"][0]["nb_read_frames"] == "8"


def test_changed_parameter_sets_are_refused(tmp_path: Path) -> None:
    other = [nal + b"\x01" if nal_type(nal) == NalType.PPS else nal for nal in UNITS[8].nals]
    with Fmp4Writer(tmp_path / "a.mp4", WIDTH, HEIGHT) as writer:
        writer.write(UNITS[0])
        with pytest.raises(MediaError, match="SPS or PPS changed"):
            writer.write(AccessUnit.from_nals(other, UNITS[8].pts_us))


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    """The kernel refuses bytes beyond the limit as a full disk does, also when the file is closed."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from codec.container import ContainerWriter; from tests.codec.media import protected_units\n"
        "units = protected_units()\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "with ContainerWriter(Path(sys.argv[1]), 160, 120) as writer:\n"
        "    for unit in units: writer.write(unit)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / f"video{suffix}")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


@given(st.integers(-(10**15), 10**15), st.integers(1, 10**9))
def test_times_are_rounded_as_fractions_are(value: int, divisor: int) -> None:
    assert _rounded(value, divisor) == round(Fraction(value, divisor))
    assert _rounded(value * divisor + divisor // 2, divisor) == round(value + Fraction(divisor // 2, divisor))


@given(
    st.integers(-(10**12), 10**12),
    st.fractions(Fraction(1, 10**6), 1000).filter(bool),
    st.fractions(Fraction(1, 10**6), 1000).filter(bool),
)
def test_ticks_are_rescaled_with_halves_away_from_zero(ticks: int, old: Fraction, new: Fraction) -> None:
    exact = ticks * old / new
    magnitude = int(abs(exact) + Fraction(1, 2))
    assert rescale(ticks, old, new) == (magnitude if exact >= 0 else -magnitude)
