from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.errors import MediaError, UsageError, VeilError
from codec.nal import split_annexb
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.remux import capture_packet, describe_stream, write_packets
from codec.stream_info import reorder_depth_of, rotation_of
from tests.codec.media import elementary_stream, ffmpeg, ffprobe, source_file

# name, video encoder, audio encoder, containers of the same kind (they store the same bytes)
SOURCES = {
    "h264-aac.mp4": ("libx264", "aac", (".mp4", ".mov", ".mkv")),
    "h264-pcm.mkv": ("libx264", "pcm_s16le", (".mkv", ".mov")),
    "h264-aac.ts": ("libx264", "aac", (".ts",)),
    "hevc-aac.mp4": ("libx265", "aac", (".mp4", ".mov", ".mkv")),
    "hevc-pcm.mkv": ("libx265", "pcm_s16le", (".mkv", ".mov")),
    "hevc-aac.ts": ("libx265", "aac", (".ts",)),
    "h264-ulaw.mov": ("libx264", "pcm_mulaw", (".mov",)),
}
SAME_KIND = [(name, suffix) for name, (_, _, suffixes) in SOURCES.items() for suffix in suffixes]
VIDEO_FACTS = (
    "codec_name",
    "profile",
    "level",
    "width",
    "height",
    "pix_fmt",
    "has_b_frames",
    "sample_aspect_ratio",
)
AUDIO_FACTS = ("codec_name", "sample_rate", "channels")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    return {name: source_file(folder / name, video, audio) for name, (video, audio, _) in SOURCES.items()}


def capture(path: Path) -> tuple[list[SealedStream], list[SealedPacket]]:
    """Streams and packets of a file, through the bytes of their records."""
    with av.open(str(path)) as container:
        streams = [describe_stream(stream) for stream in container.streams]
        packets = [capture_packet(packet) for packet in container.demux() if packet.size]
    streams = [SealedStream.parse(bytes(stream)) for stream in streams]
    return streams, [SealedPacket.parse(bytes(packet)) for packet in packets]


def muxer_of(name: str) -> str:
    return "hevc" if name.startswith("hevc") else "h264"


@functools.cache
def facts(path: Path) -> tuple[list[Any], list[Any]]:
    streams = {stream["codec_type"]: stream for stream in ffprobe(path)["streams"]}
    video, audio = streams["video"], streams["audio"]
    return [video.get(key) for key in VIDEO_FACTS], [audio.get(key) for key in AUDIO_FACTS]


@pytest.mark.parametrize(("name", "suffix"), SAME_KIND)
def test_elementary_streams_and_parameters_come_back_byte_for_byte(
    sources: dict[str, Path], tmp_path: Path, name: str, suffix: str
) -> None:
    source, target = sources[name], tmp_path / f"out{suffix}"
    streams, packets = capture(source)
    report = write_packets(target, streams, packets)
    assert (report.num_packets, report.num_jumps, report.num_nudged) == (len(packets), 0, 0)
    video, muxer = elementary_stream(source, "v", muxer_of(name)), muxer_of(name)
    assert elementary_stream(target, "v", muxer) == video
    audio = "adts" if "aac" in name else "data"
    assert elementary_stream(target, "a", audio) == elementary_stream(source, "a", audio)
    assert facts(target) == facts(source)


@pytest.mark.parametrize("name", ["h264-aac.mp4", "hevc-aac.mp4", "h264-aac.ts", "hevc-aac.ts"])
def test_raw_stream_equals_ffmpegs_own_extraction(
    sources: dict[str, Path], tmp_path: Path, name: str
) -> None:
    target = tmp_path / f"out.{muxer_of(name).replace('hevc', 'h265')}"
    streams, packets = capture(sources[name])
    report = write_packets(target, streams, packets)
    assert target.read_bytes() == elementary_stream(sources[name], "v", muxer_of(name))
    assert report.left_out == tuple(s.index for s in streams if s.kind is StreamKind.AUDIO)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("h264-aac.ts", ".mp4"), ("hevc-aac.ts", ".mkv"), ("h264-aac.mp4", ".ts"), ("hevc-aac.mp4", ".ts")],
)
def test_other_kind_of_container_changes_framing_only(
    sources: dict[str, Path], tmp_path: Path, name: str, suffix: str
) -> None:
    target = tmp_path / f"out{suffix}"
    write_packets(target, *capture(sources[name]))
    assert pictures(target, muxer_of(name)) == pictures(sources[name], muxer_of(name))
    assert facts(target) == facts(sources[name])
    assert elementary_stream(target, "a", "adts") == elementary_stream(sources[name], "a", "adts")


def pictures(path: Path, muxer: str) -> list[bytes]:
    """The slices' NAL units; delimiters and parameter sets come and go with the container."""
    nals = split_annexb(elementary_stream(path, "v", muxer))
    if muxer == "hevc":
        return [nal for nal in nals if nal[0] >> 1 < 32]
    return [nal for nal in nals if nal[0] & 31 in (1, 5)]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov", ".ts"])
def test_same_packets_give_the_same_bytes_and_nothing_of_the_sources_metadata(
    sources: dict[str, Path], tmp_path: Path, suffix: str
) -> None:
    assert b"my kitchen" in sources["h264-aac.mp4"].read_bytes()
    streams, packets = capture(sources["h264-aac.mp4"])
    targets = [tmp_path / f"{name}{suffix}" for name in ("first", "second")]
    for target in targets:
        write_packets(target, streams, packets)
    data = targets[0].read_bytes()
    assert data == targets[1].read_bytes()
    assert b"my kitchen" not in data
    tags = ffprobe(targets[0])["format"].get("tags", {})
    assert not {"creation_time", "title", "DATE"} & set(tags)


@pytest.mark.parametrize(("suffix", "degrees"), [(".mp4", 90), (".mov", -90), (".mkv", 180), (".mp4", 0)])
def test_rotation_survives(sources: dict[str, Path], tmp_path: Path, suffix: str, degrees: int) -> None:
    streams, packets = capture(sources["h264-aac.mp4"])
    with av.open(str(sources["h264-aac.mp4"])) as container:
        video = describe_stream(container.streams.video[0], rotation_degrees=degrees)
    target = tmp_path / f"out{suffix}"
    write_packets(target, [SealedStream.parse(bytes(video)), *streams[1:]], packets)
    with av.open(str(target)) as container:
        assert abs(next(container.decode(video=0)).rotation) == abs(degrees)
        container.seek(0)
    assert rotation_of(video) == degrees


def test_reorder_depth_is_told_for_matroskas_missing_decoding_times(sources: dict[str, Path]) -> None:
    streams, packets = capture(sources["h264-pcm.mkv"])
    assert reorder_depth_of(streams[0]) == 2
    assert packets[0].dts is None


def video_stream(**changes: Any) -> SealedStream:
    stream = SealedStream(0, StreamKind.VIDEO, "mjpeg", Fraction(1, 1000), 16, 16, pixel_format="yuvj420p")
    return replace(stream, **changes)


def picture_packets(times: Iterable[int]) -> list[SealedPacket]:
    picture = ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=size=16x16", "-frames:v", "1", "-c:v", "mjpeg"),
        *("-pix_fmt", "yuvj420p", "-f", "mjpeg", "-"),
    )
    return [SealedPacket(0, True, time, time, None, picture) for time in times]


def times_of(path: Path) -> list[float]:
    with av.open(str(path)) as container:
        return [float(p.dts * p.time_base) for p in container.demux(video=0) if p.size and p.dts is not None]


def test_times_are_shifted_to_begin_at_zero(tmp_path: Path) -> None:
    start = 1_700_000_000_000
    report = write_packets(
        tmp_path / "a.mkv", [video_stream()], picture_packets([start, start + 40, start + 90])
    )
    assert times_of(tmp_path / "a.mkv") == pytest.approx([0, 0.04, 0.09])
    assert report.shifted_seconds == start / 1000


def test_camera_that_starts_anew_continues_after_what_was_before(tmp_path: Path) -> None:
    report = write_packets(
        tmp_path / "a.mkv", [video_stream()], picture_packets([5000, 6000, 7000, 0, 1000, 2000])
    )
    assert times_of(tmp_path / "a.mkv") == pytest.approx([0, 1, 2, 3, 4, 5])
    assert (report.num_jumps, report.num_nudged, report.shifted_seconds) == (1, 0, 5)


def test_small_steps_back_are_nudged_forward(tmp_path: Path) -> None:
    report = write_packets(tmp_path / "a.mkv", [video_stream()], picture_packets([0, 40, 40, 30, 120]))
    assert times_of(tmp_path / "a.mkv") == pytest.approx([0, 0.04, 0.041, 0.042, 0.12])
    assert report.num_nudged == 2


def test_packets_without_any_time_follow_the_one_before(tmp_path: Path) -> None:
    timeless = [replace(packet, pts=None, dts=None, duration=40) for packet in picture_packets([0, 0, 0])]
    report = write_packets(tmp_path / "a.mkv", [video_stream()], [*timeless, *picture_packets([0, 120])])
    assert times_of(tmp_path / "a.mkv") == pytest.approx([0, 0.04, 0.08, 0.081, 0.12])
    assert (report.num_packets, report.num_nudged) == (5, 4)


def test_microseconds_survive_containers_with_coarser_clocks(tmp_path: Path) -> None:
    stream = video_stream(time_base=Fraction(1, 1_000_000))
    for suffix in (".mkv", ".mov", ".avi"):
        report = write_packets(tmp_path / f"a{suffix}", [stream], picture_packets([7, 8, 9, 40_007]))
        assert report.num_packets == 4
        assert len(times_of(tmp_path / f"a{suffix}")) >= 4


def test_container_that_cannot_hold_a_codec_is_refused_with_those_that_can(
    sources: dict[str, Path], tmp_path: Path
) -> None:
    streams, packets = capture(sources["h264-ulaw.mov"])
    with pytest.raises(UsageError, match=r"matroska cannot hold pcm_mulaw; endings that can: \.mov, \.avi"):
        write_packets(tmp_path / "a.mkv", streams, packets)
    assert list(tmp_path.iterdir()) == []


def test_unknown_endings_and_codecs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a name that ends in"):
        write_packets(tmp_path / "a.webm", [video_stream()], [])
    with pytest.raises(UsageError, match="libav cannot write streams of codec 'nonsense'"):
        write_packets(tmp_path / "a.mkv", [video_stream(codec="nonsense")], [])
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_the_packets_end_in_an_error(tmp_path: Path) -> None:
    def packets() -> Iterable[SealedPacket]:
        yield from picture_packets(range(0, 3000, 40))
        raise MediaError("cut")

    with pytest.raises(MediaError, match="cut"):
        write_packets(tmp_path / "a.mkv", [video_stream()], packets())
    assert list(tmp_path.iterdir()) == []


def test_packets_of_streams_that_are_not_known_are_skipped(tmp_path: Path) -> None:
    known = picture_packets([0, 40])
    other = [replace(packet, stream_index=9) for packet in known]
    assert write_packets(tmp_path / "a.mkv", [video_stream()], known + other).num_packets == 2


CODECS = st.sampled_from(
    ["h264", "hevc", "av1", "ffv1", "mjpeg", "aac", "pcm_s16le", "opus", "pcm_mulaw", "x"]
)
TIMES = st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1), st.integers(0, 5000))
U32 = st.one_of(st.integers(0, 64), st.integers(0, 2**32 - 1))
STREAMS = st.builds(
    SealedStream,
    index=st.just(0),
    kind=st.sampled_from(StreamKind),
    codec=CODECS,
    time_base=st.builds(Fraction, st.integers(1, 2**32 - 1), st.integers(1, 2**32 - 1)),
    width=U32,
    height=U32,
    pixel_format=st.sampled_from(["", "yuv420p", "bgr0", "s16", "?"]),
    sample_aspect_ratio=st.builds(Fraction, U32, st.integers(1, 2**32 - 1)),
    frame_rate=st.builds(Fraction, U32, st.integers(1, 2**32 - 1)),
    color_range=st.integers(0, 255),
    color_primaries=st.integers(0, 255),
    sample_rate=U32,
    channel_layout=st.sampled_from(["", "mono", "5.1", "99 channels", "?"]),
    extradata=st.one_of(st.binary(max_size=60), st.just(b"\x01\x64\x00\x1f\xff\xe1")),
)
PACKETS = st.lists(
    st.builds(SealedPacket, st.just(0), st.booleans(), TIMES, TIMES, TIMES, st.binary(max_size=60)),
    max_size=6,
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STREAMS, PACKETS, st.sampled_from([".mkv", ".mp4", ".mov", ".ts", ".avi", ".nut", ".h264"]))
def test_nonsense_from_a_stranger_is_refused_or_written_but_never_crashes(
    tmp_path: Path, stream: SealedStream, packets: list[SealedPacket], suffix: str
) -> None:
    with contextlib.suppress(VeilError):
        write_packets(tmp_path / f"a{suffix}", [stream], packets)
    assert not list(tmp_path.glob(".*"))
