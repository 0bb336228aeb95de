from __future__ import annotations

import json
import subprocess
from pathlib import Path

import av
import cv2
import pytest

from base.errors import MediaError, UsageError
from camera.cutter import CutRules
from camera.protect_file import ProtectedFile, protect_file
from camera.publisher import CodingOptions
from codec.container import read_access_units
from codec.remux import write_packets
from codec.segments import read_segments
from codec.unseal import open_segment
from tests.support.blur import BlurProtector
from tests.support.media import Keys, demuxed, make_clip


def protect(
    source: Path,
    target: Path,
    keys: Keys,
    sealed: str | None = None,
    *,
    pixels: str | None = None,
    cut: CutRules | None = None,
) -> ProtectedFile:
    return protect_file(
        source,
        target,
        protector=BlurProtector(),
        camera_key=keys.camera,
        epochs=keys.epochs,
        coding=CodingOptions(sealed=sealed, pixels=pixels, preset="ultrafast", cut=cut or CutRules()),
    )


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv", "out.ts", "out.mov"])
def test_every_picture_and_every_packet_survives_in_every_container(tmp_path: Path, name: str) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=73, gop=30, b_frames=2, audio_s=3.3)
    keys = Keys()
    result = protect(clip, tmp_path / name, keys)
    assert (result.pictures, result.sealed_mode, result.width, result.height) == (73, "copy", 160, 120)
    with read_access_units(tmp_path / name) as units:
        segments = [open_segment(view, keys.identities) for view in read_segments(units)]
    assert all(segment.is_complete for segment in segments)
    packets = [packet for segment in segments for packet in segment.packets]
    assert [(p.pts, p.dts, p.data) for p in packets] == [entry[1:] for entry in demuxed(clip)]
    capture = cv2.VideoCapture(str(tmp_path / name))
    count = 0
    while capture.read()[0]:
        count += 1
    assert count == 73


def test_ffmpeg_plays_it_without_an_error_and_finds_no_sound_and_no_metadata(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=30, audio_s=1)
    target = tmp_path / "out.mp4"
    protect(clip, target, Keys())
    probe = subprocess.run(
        ["ffprobe", "-v", "error", "-count_frames", "-show_streams", "-of", "json", str(target)],
        check=True,
        capture_output=True,
    )
    assert probe.stderr == b""
    (stream,) = json.loads(probe.stdout)["streams"]
    assert (stream["codec_name"], stream["nb_read_frames"]) == ("h264", "30")
    assert stream["profile"] == "Constrained Baseline"
    assert stream["has_b_frames"] == 0


def test_the_progress_counts_every_picture(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mkv", frames=20)
    keys = Keys()
    seen: list[tuple[int, int | None]] = []
    protect_file(
        clip,
        tmp_path / "out.mp4",
        protector=BlurProtector(),
        camera_key=keys.camera,
        epochs=keys.epochs,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(number, 20) for number in range(1, 21)]


def test_a_broken_source_leaves_no_output(tmp_path: Path) -> None:
    broken = tmp_path / "in.mp4"
    broken.write_bytes(b"nonsense" * 100)
    with pytest.raises(MediaError, match=r"in\.mp4"):
        protect(broken, tmp_path / "out.mp4", Keys())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mp4"]


def test_an_unknown_ending_and_a_target_that_is_the_source_are_refused(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=5)
    before = clip.read_bytes()
    with pytest.raises(UsageError, match="is the source itself"):
        protect(clip, clip, Keys())
    with pytest.raises(UsageError, match=r"out\.gif"):
        protect(clip, tmp_path / "out.gif", Keys())
    assert clip.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mp4"]


def test_an_interrupt_leaves_no_output_and_no_thread(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=60)
    keys = Keys()

    def interrupt(done: int, _: int | None) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect_file(
            clip,
            tmp_path / "out.mp4",
            protector=BlurProtector(),
            camera_key=keys.camera,
            epochs=keys.epochs,
            progress=interrupt,
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mp4"]


def test_a_target_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=5)
    with pytest.raises(MediaError, match=r"out\.mp4: cannot be written"):
        protect(clip, tmp_path / "nowhere" / "out.mp4", Keys())


def test_the_protected_pictures_are_the_same_every_time(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=40)

    def pictures(name: str) -> list[bytes]:
        protect(clip, tmp_path / name, Keys(), pixels="off")
        with read_access_units(tmp_path / name) as units:
            return [unit.without_veilcam().annexb() for unit in units]

    assert pictures("a.mp4") == pictures("b.mp4")


@pytest.mark.parametrize(("sealed", "pixels"), [("av1", "low"), ("av1", "off"), ("h264", "off")])
def test_layers_that_come_late_still_ride_together(tmp_path: Path, sealed: str, pixels: str) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=73, gop=30, audio_s=3.3)
    keys = Keys()
    result = protect(clip, tmp_path / "out.mp4", keys, sealed, pixels=pixels)
    assert (result.pictures, result.sealed_mode) == (73, sealed)
    with read_access_units(tmp_path / "out.mp4") as units:
        stored = list(units)
    segments = [open_segment(view, keys.identities) for view in read_segments(iter(stored))]
    assert len(segments) > 1
    assert all(segment.is_complete for segment in segments)
    video = [packet for segment in segments for packet in segment.packets if packet.stream_index == 0]
    times = [packet.pts or 0 for packet in video]
    assert len(times) == 73
    assert times == sorted(times)
    assert any(packet.stream_index == 1 for segment in segments for packet in segment.packets)
    # Cut inside the first segment: what was recorded up to there comes back.
    (cut,) = [open_segment(view, keys.identities) for view in read_segments(iter(stored[:20]))]
    assert [packet.pts for packet in cut.packets if packet.stream_index == 0][:20] == times[:20]


@pytest.mark.parametrize(("pixels", "mode"), [("off", 0), ("low", 1)])
def test_flat_parts_get_bits_of_their_own_where_something_is_hidden_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, pixels: str, mode: int
) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=2)
    with caplog.at_level("DEBUG", "codec.h264"):
        protect(clip, tmp_path / "out.mp4", Keys(), pixels=pixels)
    assert f"aq-mode={mode}" in caplog.text


def test_the_bytes_of_one_segment_do_not_cut_the_next(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=120)
    keys = Keys()
    # Fewer bytes than a segment takes, more than a picture.
    protect(clip, tmp_path / "out.mp4", keys, "av1", pixels="off", cut=CutRules(max_bytes=2_000))
    with read_access_units(tmp_path / "out.mp4") as units:
        segments = [open_segment(view, keys.identities) for view in read_segments(units)]
    counts = [len(segment.packets) for segment in segments]
    assert sum(counts) == 120
    assert min(counts) > 1


def test_a_lossless_original_fits_through_a_file(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mkv", codec="ffv1", frames=12, size=(640, 480), pixel_format="yuv444p")
    keys = Keys()
    protect(clip, tmp_path / "out.mp4", keys, "ffv1")
    with read_access_units(tmp_path / "out.mp4") as units:
        (segment,) = [open_segment(view, keys.identities) for view in read_segments(units)]
    assert segment.is_complete
    assert segment.streams[0].pixel_format == "yuv444p"
    assert len(segment.packets) == 12


@pytest.mark.parametrize("sealed", ["copy", "ffv1"])
def test_a_clip_that_players_turn_is_turned_again_when_it_comes_back(tmp_path: Path, sealed: str) -> None:
    clip, turned = make_clip(tmp_path / "in.mp4", frames=12), tmp_path / "turned.mp4"
    with av.open(str(clip)) as source, av.open(str(turned), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        stream.set_display_rotation(90)
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                target.mux(packet)
    keys = Keys()
    protect(turned, tmp_path / "out.mp4", keys, sealed)
    with read_access_units(tmp_path / "out.mp4") as units:
        segments = [open_segment(view, keys.identities) for view in read_segments(units)]
    back = tmp_path / "back.mkv"
    write_packets(back, segments[0].streams, [packet for each in segments for packet in each.packets])
    shown = []
    for path in (turned, back):
        with av.open(str(path)) as container:
            picture = next(container.decode(video=0))
            shown.append((picture.rotation, picture.width, picture.height))
    assert shown == [(90, 160, 120)] * 2
