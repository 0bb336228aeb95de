from __future__ import annotations

import itertools
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from base.errors import MediaError, UsageError
from base.frames import ClearFrame, ProtectedFrame
from camera.broadcast import WhenFull
from camera.cutter import CutRules
from camera.pipeline import Pipeline, PipelineOptions
from camera.publisher import CodingOptions
from camera.sources import open_source
from camera.sources.captured import Captured, Source
from codec.limits import LIVE_UNIT_CAP_BYTES
from codec.packets import StreamKind
from codec.records import SealedMode
from codec.sealer import SealedUnit
from codec.segments import read_segments
from codec.unseal import OpenedSegment, open_segment
from tests.support.blur import BlurProtector
from tests.support.media import Keys, demuxed, make_clip


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline_s = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before


def run(
    source: Source,
    keys: Keys,
    sealed: str | None = None,
    protector: BlurProtector | None = None,
    *,
    pixels: str | None = None,
) -> tuple[list[SealedUnit], Pipeline]:
    options = PipelineOptions(CodingOptions(sealed=sealed, pixels=pixels, preset="ultrafast"))
    pipeline = Pipeline(source, protector or BlurProtector(), keys.camera, keys.epochs, options)
    subscription = pipeline.broadcast.subscribe("test", when_full=WhenFull.WAIT)
    with pipeline:
        units = list(subscription)
    return units, pipeline


def opened(units: list[SealedUnit], keys: Keys) -> list[OpenedSegment]:
    segments = [open_segment(view, keys.identities) for view in read_segments(u.unit for u in units)]
    assert all(segment.is_complete for segment in segments)
    return segments


def wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_copy_seals_every_packet_bit_for_bit_with_its_times(tmp_path: Path, codec: str) -> None:
    path = make_clip(tmp_path / "clip.mp4", codec=codec, frames=110, gop=50, b_frames=3, audio_s=5)
    keys = Keys()
    units, pipeline = run(open_source(str(path)), keys)
    assert pipeline.error is None
    assert pipeline.state == "ended"
    assert len(units) == 110
    segments = opened(units, keys)
    packets = [packet for segment in segments for packet in segment.packets]
    assert [(p.pts, p.dts, p.data) for p in packets] == [entry[1:] for entry in demuxed(path)]
    assert [len(list(view.units)) for view in read_segments(u.unit for u in units)] == [50, 50, 10]
    for segment in segments:
        assert segment.header is not None
        assert segment.header.sealed_mode is SealedMode.COPY
        assert segment.header.starts_with_key
        assert {stream.kind for stream in segment.streams} == {StreamKind.VIDEO, StreamKind.AUDIO}


def test_units_carry_the_capture_times(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", frames=10)
    keys = Keys()
    units, _ = run(open_source(str(path), start_unix_us=1_000_000), keys)
    assert [u.unit.pts_us for u in units] == [1_000_000 + n * 40_000 for n in range(10)]


def test_ffv1_gives_every_pixel_back_and_audio_too(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mkv", frames=60, audio_s=2.6)
    keys = Keys()
    expected = [c.picture.to_ndarray() for c in open_source(str(path))]
    units, _ = run(open_source(str(path)), keys, "ffv1")
    segments = opened(units, keys)
    audio = [p.data for s in segments for p in s.packets if p.stream_index == 1]
    assert audio == [data for kind, _, _, data in demuxed(path) if kind == "audio"]
    pictures: list[npt.NDArray[np.uint8]] = []
    for segment in segments:
        decoder = av.CodecContext.create("ffv1", "r")
        decoder.extradata = segment.streams[0].extradata
        decoder.width, decoder.height, decoder.pix_fmt = 160, 120, segment.streams[0].pixel_format
        for packet in segment.packets:
            if packet.stream_index == 0:
                pictures += [p.to_ndarray().astype(np.uint8) for p in decoder.decode(av.Packet(packet.data))]
    assert len(pictures) == 60
    assert all(np.array_equal(a, b) for a, b in zip(pictures, expected, strict=True))


@pytest.mark.parametrize("mode", ["h264", "hevc", "av1"])
def test_a_coded_layer_has_one_key_frame_per_segment_and_no_rest(mode: str) -> None:
    keys = Keys()
    units, _ = run(open_source("synthetic:?size=128x96&seconds=3&fps=10"), keys, mode)
    segments = opened(units, keys)
    assert [len(s.packets) for s in segments] == [20, 10]
    for segment in segments:
        assert [p.is_key for p in segment.packets] == [True] + [False] * (len(segment.packets) - 1)
        times = [p.pts for p in segment.packets if p.pts is not None]
        assert times == sorted(set(times))


def test_a_source_without_coded_video_falls_back_to_h264_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, pipeline = run(open_source("synthetic:?size=64x48&seconds=0.3"), Keys(), "copy")
    assert pipeline.stats().sealed_mode == "h264"
    assert "no coded video" in caplog.text


def test_nothing_is_sealed_in_mode_none() -> None:
    units, pipeline = run(open_source("synthetic:?size=64x48&seconds=0.3"), Keys(), "none")
    assert pipeline.error is None
    assert pipeline.stats().sealed_bytes == 0
    assert len(units) == 8


class SlowProtector(BlurProtector):
    def protect(self, frame: ClearFrame, *, renew: bool = False) -> ProtectedFrame:
        time.sleep(0.08)
        return super().protect(frame, renew=renew)


def test_a_camera_that_is_too_fast_loses_pictures_but_no_sealed_packet(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", frames=50, gop=25, b_frames=2, audio_s=2)
    keys = Keys()
    units, pipeline = run(open_source(str(path), realtime=True), keys, protector=SlowProtector())
    stats = pipeline.stats()
    assert stats.dropped["behind"] > 5
    assert len(units) == stats.frames_out == stats.frames_in - stats.dropped["behind"]
    packets = [packet for segment in opened(units, keys) for packet in segment.packets]
    assert [p.data for p in packets] == [data for *_, data in demuxed(path)]


def test_a_file_is_never_dropped_however_slow_the_protector(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", frames=12)
    units, pipeline = run(open_source(str(path)), Keys(), protector=SlowProtector())
    assert len(units) == 12
    assert pipeline.stats().dropped == {"behind": 0}


def test_a_key_frame_on_request_starts_a_segment_and_requests_are_coalesced() -> None:
    keys = Keys()
    source = open_source("synthetic:?size=64x48&fps=50", realtime=True)
    options = PipelineOptions(CodingOptions(preset="ultrafast", cut=CutRules(target_s=60, max_s=60)))
    pipeline = Pipeline(source, BlurProtector(), keys.camera, keys.epochs, options)
    subscription = pipeline.broadcast.subscribe("test", when_full=WhenFull.WAIT)
    with pipeline:
        deadline_s = time.monotonic() + 1.8
        while time.monotonic() < deadline_s:
            pipeline.request_key_frame()
            time.sleep(0.01)
    starts = [u.unit.pts_us for u in subscription if u.starts_segment]
    gaps_s = [(b - a) / 1e6 for a, b in itertools.pairwise(starts)]
    assert 2 <= len(gaps_s) <= 4
    assert min(gaps_s) >= 0.5
    assert pipeline.stats().key_frame_requests > 50


def test_stopping_signs_the_open_segment_and_closes_the_broadcast() -> None:
    keys = Keys()
    pipeline = Pipeline(
        open_source("synthetic:?size=64x48", realtime=True), BlurProtector(), keys.camera, keys.epochs
    )
    subscription = pipeline.broadcast.subscribe("test", when_full=WhenFull.WAIT)
    pipeline.start()
    assert wait_until(lambda: pipeline.stats().frames_out > 5)
    pipeline.stop()
    assert pipeline.join(10)
    units = list(subscription)
    assert subscription.ended
    assert units[-1].is_last
    opened(units, keys)


def test_stopping_before_starting_and_twice_is_harmless() -> None:
    keys = Keys()
    pipeline = Pipeline(open_source("synthetic:?size=64x48"), BlurProtector(), keys.camera, keys.epochs)
    pipeline.stop()
    pipeline.stop()
    assert pipeline.join(1)
    with pytest.raises(UsageError, match="expected a new one"):
        pipeline.start()


class FailingProtector(BlurProtector):
    def __init__(self, after: int) -> None:
        self._left = after

    def protect(self, frame: ClearFrame, *, renew: bool = False) -> ProtectedFrame:
        self._left -= 1
        if self._left < 0:
            message = "the network is broken"
            raise MediaError(message)
        return super().protect(frame, renew=renew)


def test_a_failing_protector_stops_everything_with_its_reason_and_keeps_what_was_done() -> None:
    keys = Keys()
    units, pipeline = run(open_source("synthetic:?size=64x48"), keys, protector=FailingProtector(after=12))
    assert isinstance(pipeline.error, MediaError)
    assert pipeline.state == "failed"
    assert pipeline.stats().error == "MediaError: the network is broken"
    assert len(units) == 12
    opened(units, keys)


def test_a_source_that_breaks_off_keeps_what_came_before(tmp_path: Path) -> None:
    class Breaking(Source):
        def __iter__(self) -> Iterator[Captured]:
            for number, captured in enumerate(open_source("synthetic:?size=64x48")):
                if number == 9:
                    message = "the cable is out"
                    raise MediaError(message)
                yield captured

    keys = Keys()
    units, pipeline = run(Breaking("breaking", drops=False), keys)
    assert str(pipeline.error) == "the cable is out"
    assert len(units) == 9
    opened(units, keys)


def test_an_encoder_that_cannot_be_opened_ends_the_pipeline() -> None:
    keys = Keys()
    pipeline = Pipeline(
        open_source("synthetic:?size=64x48"),
        BlurProtector(),
        keys.camera,
        keys.epochs,
        PipelineOptions(CodingOptions(preset="no such preset")),
    )
    with pipeline:
        assert pipeline.join(10)
    assert isinstance(pipeline.error, UsageError)


class Resizing(Source):
    """A camera that comes back with another size."""

    def __iter__(self) -> Iterator[Captured]:
        for size in ("64x48", "128x96"):
            start = 0 if size == "64x48" else 1_000_000
            for captured in open_source(f"synthetic:?size={size}&seconds=0.4", start_unix_us=start):
                shifted = captured.source_us + start
                yield Captured(
                    captured.picture,
                    captured.frame,
                    (),
                    None,
                    False,
                    bool(start) and captured.source_us == 0,
                    (),
                    None,
                    captured.time_us,
                    shifted,
                )


def test_a_camera_that_comes_back_with_another_size_keeps_the_stream_s_size() -> None:
    keys = Keys()
    units, pipeline = run(Resizing("resizing", drops=False), keys)
    assert pipeline.error is None
    segments = opened(units, keys)
    assert [s.header.width for s in segments if s.header] == [64, 64]
    assert [s.streams[0].width for s in segments] == [64, 128]


def test_no_live_unit_is_above_the_cap_but_a_segment_s_last() -> None:
    keys = Keys()
    units, _ = run(open_source("synthetic:?size=640x360&seconds=3", realtime=True), keys, "h264")
    sizes = [u.unit.num_bytes for u in units if not u.is_last]
    assert max(sizes) <= LIVE_UNIT_CAP_BYTES


def test_the_statistics_add_up(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", frames=30)
    units, pipeline = run(open_source(str(path)), Keys())
    stats = pipeline.stats()
    assert (stats.frames_in, stats.frames_out, stats.segments, stats.key_frames) == (30, 30, 1, 1)
    assert stats.published_bytes == sum(u.unit.num_bytes for u in units)
    assert stats.sealed_bytes == sum(len(data) for *_, data in demuxed(path))
    assert (stats.width, stats.height, stats.protector) == (160, 120, "blur")
    assert len(stats.epoch) == 8
    for stage in ("capture", "protect", "encode", "seal"):
        assert stats.stages[stage].count == 30
        assert sum(stats.stages[stage].bucket_counts) == 30


def test_the_protected_layer_never_carries_the_source_s_packets(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", frames=30)
    units, _ = run(open_source(str(path)), Keys())
    published = b"".join(u.unit.annexb() for u in units)
    for *_, data in demuxed(path):
        if len(data) > 40:
            assert data[8:40] not in published


def test_the_same_input_gives_the_same_protected_pictures(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", frames=20)

    def pictures(pixels: str) -> list[bytes]:
        units, _ = run(open_source(str(path)), Keys(), pixels=pixels)
        return [u.unit.without_veilcam().annexb() for u in units]

    assert pictures("off") == pictures("off")
    assert pictures("low") != pictures("low")  # hidden under fresh keys


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def test_memory_stays_flat_over_many_loops(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", frames=50, size=(96, 64), audio_s=2)
    keys = Keys()
    pipeline = Pipeline(
        open_source(str(clip), loop=True),
        BlurProtector(),
        keys.camera,
        keys.epochs,
        PipelineOptions(CodingOptions(preset="ultrafast")),
    )
    subscription = pipeline.broadcast.subscribe("test", when_full=WhenFull.WAIT)
    with pipeline:
        for _ in range(200):
            subscription.get(10)
        before_mb = resident_mb()
        for _ in range(600):
            subscription.get(10)
        growth_mb = resident_mb() - before_mb
        pipeline.broadcast.unsubscribe(subscription)
    assert growth_mb < 8


def test_a_protected_picture_starts_every_segment(tmp_path: Path) -> None:
    units, _ = run(open_source("synthetic:?size=64x48&seconds=5&fps=10"), Keys())
    for unit in units:
        assert unit.unit.is_keyframe == unit.starts_segment


class NotingProtector(BlurProtector):
    def __init__(self) -> None:
        self.renewed: list[bool] = []

    def protect(self, frame: ClearFrame, *, renew: bool = False) -> ProtectedFrame:
        self.renewed.append(renew)
        return super().protect(frame, renew=renew)


def test_the_protector_renews_its_picture_exactly_where_segments_begin() -> None:
    protector = NotingProtector()
    units, _ = run(open_source("synthetic:?size=64x48&seconds=5"), Keys(), "none", protector=protector)
    assert protector.renewed == [unit.starts_segment for unit in units]
    assert sum(protector.renewed) == 3


def test_every_segment_says_how_strong_the_protection_was() -> None:
    protector = NotingProtector()
    protector.strength = 3
    keys = Keys()
    units, _ = run(open_source("synthetic:?size=64x48&seconds=3"), keys, protector=protector)
    assert [s.header.strength for s in opened(units, keys) if s.header] == [3, 3]
