from __future__ import annotations

import itertools
import os
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.stream import VideoStream

from base.errors import MediaError
from camera.sources import open_source
from camera.sources.captured import Captured
from codec.packets import SealedPacket, StreamKind
from tests.support.media import demuxed, make_clip, picture


def all_packets(frames: list[Captured], trailing: tuple[SealedPacket, ...]) -> list[SealedPacket]:
    return [packet for captured in frames for packet in captured.packets] + list(trailing)


def read(path: Path) -> tuple[list[Captured], list[SealedPacket]]:
    source = open_source(str(path), start_unix_us=0)
    frames = list(source)
    return frames, all_packets(frames, source.trailing_packets())


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv", "clip.ts"])
@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_every_packet_comes_in_demux_order_bit_for_bit(tmp_path: Path, name: str, codec: str) -> None:
    path = make_clip(tmp_path / name, codec=codec, audio_s=2.5)  # audio outlasts the video
    frames, packets = read(path)
    assert len(frames) == 50
    assert [(p.pts, p.dts, p.data) for p in packets] == [entry[1:] for entry in demuxed(path)]
    kinds = [stream.kind for stream in frames[0].streams]
    assert kinds == [StreamKind.VIDEO, StreamKind.AUDIO]


def test_each_key_packet_comes_with_the_picture_that_it_starts(tmp_path: Path) -> None:
    frames, _ = read(make_clip(tmp_path / "clip.mp4", gop=10, b_frames=3, audio_s=2))
    starts = [number for number, captured in enumerate(frames) if captured.source_key]
    assert starts == [0, 10, 20, 30, 40]
    for number in starts:
        captured = frames[number]
        assert captured.boundary is not None
        packet = captured.packets[captured.boundary]
        assert packet.is_key
        assert packet.stream_index == captured.video_stream
        assert packet.pts == captured.picture.pts


def test_variable_frame_rate_keeps_its_times(tmp_path: Path) -> None:
    times = [Fraction(n, 1000) for n in (0, 20, 100, 101, 500, 1900)]
    frames, _ = read(make_clip(tmp_path / "clip.mkv", frames=6, b_frames=0, times=times))
    assert [captured.time_us for captured in frames] == [0, 20_000, 100_000, 101_000, 500_000, 1_900_000]


def test_looping_keeps_all_timestamps_rising(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", frames=25, audio_s=1.2)
    source = open_source(str(path), loop=True, start_unix_us=0)
    frames = list(itertools.islice(iter(source), 80))
    times = [captured.time_us for captured in frames]
    assert times == sorted(set(times))
    for index in (0, 1):
        stamps = [p.dts for p in all_packets(frames, ()) if p.stream_index == index and p.dts is not None]
        assert stamps == sorted(set(stamps))
        assert len(stamps) > 60
    originals = [data for kind, _, _, data in demuxed(path) if kind == "video"]
    copied = [p.data for p in all_packets(frames, ()) if p.stream_index == 0]
    assert copied[: 3 * len(originals)] == originals * 3


def test_a_stream_that_begins_between_key_frames_keeps_the_packets_before_them(tmp_path: Path) -> None:
    whole = make_clip(tmp_path / "clip.h264", frames=40, gop=20, b_frames=0)
    data = whole.read_bytes()
    packets = [payload for *_, payload in demuxed(whole)]
    cut = tmp_path / "cut.h264"
    cut.write_bytes(data[len(packets[0]) :])  # without the first IDR, its SPS and its PPS
    frames, copied = read(cut)
    assert frames[0].source_key
    assert b"".join(p.data for p in copied) == cut.read_bytes()


def test_the_pictures_are_what_ffmpeg_decodes(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mkv", codec="ffv1", frames=5)
    frames, _ = read(path)
    for number, captured in enumerate(frames):
        assert np.array_equal(captured.frame.luma_hw, picture(number).to_ndarray()[:120])


def test_raw_video_has_nothing_to_copy(tmp_path: Path) -> None:
    frames, packets = read(make_clip(tmp_path / "clip.avi", codec="rawvideo", frames=3))
    assert packets == []
    assert frames[0].video_stream is None


def test_a_file_s_own_date_is_its_capture_time_else_when_it_was_written(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.ts", frames=2)
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert next(iter(open_source(str(path)))).time_us == 1_600_000_000_000_000


def test_a_file_tells_how_many_pictures_to_expect(tmp_path: Path) -> None:
    source = open_source(str(make_clip(tmp_path / "clip.mkv", frames=30)))
    next(iter(source))
    assert source.expected_pictures == 30
    assert source.rate == 25


def test_files_that_are_not_video_are_refused_with_their_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"this is no video" * 100)
    source = open_source(str(broken))
    with pytest.raises(MediaError, match=r"broken\.mp4"):
        list(source)
    assert source.state == "failed"


def test_sound_alone_is_refused(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", frames=0, audio_s=0.5)
    with pytest.raises(MediaError, match=r"clip\.mp4"):
        list(open_source(str(path)))


def test_damaged_packets_are_sealed_and_do_not_stop_the_reader(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.ts", frames=60, gop=10, b_frames=0)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    for offset in range(middle, middle + 20 * 188, 188):
        data[offset + 20 : offset + 180] = bytes(160)
    path.write_bytes(data)
    frames, packets = read(path)
    assert len(frames) > 30
    assert [p.data for p in packets] == [payload for *_, payload in demuxed(path)]


def test_a_file_name_may_look_like_a_url(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "plain.mkv", frames=3)
    odd = path.rename(tmp_path / "http:%03d?x=1&y#z.mkv")
    assert len(read(odd)[0]) == 3


def test_a_playlist_cannot_make_the_camera_open_other_hosts(tmp_path: Path) -> None:
    playlist = tmp_path / "list.m3u8"
    playlist.write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/secret.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(MediaError, match=r"list\.m3u8"):
        list(open_source(str(playlist)))


def test_a_phone_s_upright_picture_is_protected_upright(tmp_path: Path) -> None:
    plain = make_clip(tmp_path / "plain.mp4", frames=3, size=(64, 48), b_frames=0)
    turned = tmp_path / "turned.mp4"
    with av.open(str(plain)) as source, av.open(str(turned), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        assert isinstance(stream, VideoStream)
        stream.set_display_rotation(-90)
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                target.mux(packet)
    upright, sideways = read(turned)[0][0], read(plain)[0][0]
    assert upright.frame.luma_hw.shape == (64, 48)
    assert np.array_equal(upright.frame.luma_hw, np.rot90(sideways.frame.luma_hw, -1))
