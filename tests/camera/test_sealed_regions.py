from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from base.errors import UsageError
from camera.pipeline import Pipeline, PipelineOptions
from camera.protect_file import protect_file
from camera.publisher import CodingOptions
from camera.settings import load_settings
from camera.sources import Source, open_source
from camera.sources.captured import Captured
from codec.container import read_access_units
from codec.limits import LIVE_UNIT_CAP_BYTES
from codec.regions import RegionGrid
from codec.segments import SegmentView, read_segments
from codec.stream_info import clock_of, region_of
from codec.unseal import open_segment
from codec.verify import Verdict, check_segment
from tests.support.blur import BlurProtector
from tests.support.media import Keys, demuxed, make_clip, picture

SPLIT = CodingOptions(sealed="ffv1", sealed_regions=(2, 1), preset="ultrafast")


def _protected(source: Path, target: Path, keys: Keys, coding: CodingOptions = SPLIT) -> list[SegmentView]:
    protect_file(
        source,
        target,
        protector=BlurProtector(),
        camera_key=keys.camera,
        epochs=keys.epochs,
        coding=coding,
    )
    with read_access_units(target) as units:
        return list(read_segments(units))


def test_every_tile_and_the_sound_come_back_exactly(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mkv", codec="ffv1", frames=60, b_frames=0, audio_s=2.2)
    keys = Keys()
    views = _protected(clip, tmp_path / "out.mkv", keys)
    evidence, sound, number = None, [], 0
    for view in views:
        evidence = check_segment(view, keys.camera.public, evidence)
        assert evidence.verdict is Verdict.AUTHENTIC
        opened = open_segment(view, keys.identities)
        assert opened.is_complete
        assert opened.header is not None
        assert opened.header.regions == RegionGrid((0, 80, 160), (0, 120))
        assert opened.header.starts_with_key
        sound += [packet.data for packet in opened.packets]
        times = [frame.time_us for frame, _ in view.own_units()]
        for region in opened.regions:
            (stream,) = region.streams
            clock = clock_of(stream)
            assert (region_of(stream), clock is not None) == (region.region, True)
            assert [(packet.pts or 0) + (clock or 0) for packet in region.packets] == times
            decoder = av.CodecContext.create("ffv1", "r")
            decoder.extradata = stream.extradata
            decoder.width, decoder.height = stream.width, stream.height
            for offset, packet in enumerate(region.packets):
                (frame,) = decoder.decode(av.Packet(packet.data))
                whole = picture(number + offset).to_ndarray()
                left = 80 * region.region
                assert np.array_equal(frame.to_ndarray()[:120], whole[:120, left : left + 80])
        number += len(times)
    assert number == 60
    assert sound == [data for kind, _, _, data in demuxed(clip) if kind == "audio"]


@pytest.mark.parametrize("sealed", [None, "copy", "none"])
def test_what_cannot_be_split_is_refused_with_the_modes_that_can(sealed: str | None) -> None:
    with pytest.raises(UsageError, match="expected one of the sealed modes av1, hevc, h264, ffv1"):
        CodingOptions(sealed=sealed, sealed_regions=(2, 2))


def test_tiles_that_are_too_small_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=5)
    coding = CodingOptions(sealed="h264", sealed_regions=(4, 1))
    with pytest.raises(UsageError, match="4x1 makes tiles of"):
        _protected(clip, tmp_path / "out.mp4", Keys(), coding)
    assert not (tmp_path / "out.mp4").exists()


class Resizing(Source):
    """A camera that comes back with a smaller picture, which holds fewer tiles."""

    def __iter__(self) -> Iterator[Captured]:
        for size, start in (("320x192", 0), ("160x96", 1_000_000)):
            for captured in open_source(f"synthetic:?size={size}&seconds=0.4", start_unix_us=start):
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
                    captured.source_us + start,
                )


def test_a_camera_that_comes_back_with_a_smaller_picture_goes_on_with_fewer_tiles() -> None:
    keys = Keys()
    options = PipelineOptions(CodingOptions(sealed="h264", sealed_regions=(4, 2), preset="ultrafast"))
    pipeline = Pipeline(Resizing("resizing", drops=False), BlurProtector(), keys.camera, keys.epochs, options)
    subscription = pipeline.broadcast.subscribe("test")
    units = []
    with pipeline:
        while (sealed := subscription.get(timeout_s=20)) is not None:
            units.append(sealed.unit)
    assert pipeline.error is None
    assert max(unit.num_bytes for unit in units) <= LIVE_UNIT_CAP_BYTES
    segments = [open_segment(view, keys.identities) for view in read_segments(units)]
    grids = [segment.header.regions for segment in segments if segment.header]
    assert [(grid.columns, grid.rows) for grid in grids if grid] == [(4, 2), (2, 1)]
    assert all(segment.is_complete for segment in segments)


def test_the_setting_reaches_the_options_and_mistakes_are_named(tmp_path: Path) -> None:
    base = "source: 'synthetic:'\ncamera: c\nrecipients: [a]\n"
    path = tmp_path / "camera.yaml"
    path.write_text(base + "coding: {sealed: h264, sealed_regions: 4x3}\n")
    assert load_settings(path, {}).coding_options().sealed_regions == (4, 3)
    for text in ("4", "4x", "0x3", "9x9", "-1x2", "4x3x2", "a"):
        path.write_text(base + f"coding: {{sealed: h264, sealed_regions: '{text}'}}\n")
        with pytest.raises(UsageError, match="sealed regions"):
            load_settings(path, {})
    path.write_text(base + "coding: {sealed_regions: 4x3}\n")
    with pytest.raises(UsageError, match="has to be named"):
        load_settings(path, {})
