from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

from base.errors import MediaError, UsageError
from tests.veilcam.cli import ROOT
from veilcam.assets import SAMPLE
from veilcam.demo.folder import open_demo_folder
from veilcam.demo.pictures import frames_at
from veilcam.demo.sheet import CELL_WIDTH, Column, Moment, draw_sheet
from veilcam.demo.streams import stream_digests
from veilcam.demo.tamper import flip_one_bit


def _ffmpeg_stream(path: Path, stream: str, form: str) -> bytes:
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-map", stream, "-c", "copy", "-f", form, "-"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def test_the_sample_is_a_realistic_stream_with_b_frames_sound_and_a_key_frame_every_two_seconds() -> None:
    fields = "stream=codec_name,has_b_frames,width,height:packet=stream_index,flags,pts_time"
    command = ["ffprobe", "-v", "error", "-show_entries", fields, "-of", "compact", str(SAMPLE)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "stream|codec_name=h264|width=768|height=576|has_b_frames=2" in lines
    assert any(line.startswith("stream|codec_name=aac") for line in lines)
    keys = [line for line in lines if line.startswith("packet|stream_index=0") and "flags=K" in line]
    times = [float(line.split("pts_time=")[1].split("|")[0]) for line in keys]
    assert times == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    assert SAMPLE.stat().st_size < 2_500_000
    assert SAMPLE.name in (ROOT / "NOTICE").read_text()


def test_stream_digests_do_not_depend_on_the_container(tmp_path: Path) -> None:
    other = tmp_path / "same.mkv"
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(SAMPLE), "-c", "copy", str(other)], check=True)
    assert stream_digests(other) == stream_digests(SAMPLE)


def test_stream_digest_is_the_hash_of_the_packets_that_ffmpeg_sees() -> None:
    video, audio = stream_digests(SAMPLE)
    assert (video.num_packets, audio.codec) == (140, "aac")
    command = ["ffmpeg", "-v", "error", "-i", str(SAMPLE), "-map", "0:a", "-c", "copy", "-f", "data", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    assert hashlib.sha256(raw).hexdigest() == audio.sha256


def test_what_is_no_media_is_a_media_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("no video")
    with pytest.raises(MediaError, match=r"a\.txt"):
        stream_digests(path)
    with pytest.raises(MediaError, match=r"a\.txt"):
        frames_at(path, {0})
    with pytest.raises(MediaError, match=r"a\.txt"):
        flip_one_bit(path, tmp_path / "b")


def test_flipping_changes_exactly_one_bit_inside_the_pictures(tmp_path: Path) -> None:
    target = tmp_path / "flipped.mp4"
    flip_one_bit(SAMPLE, target)
    before, after = (np.frombuffer(path.read_bytes(), np.uint8) for path in (SAMPLE, target))
    assert int(np.unpackbits(before ^ after).sum()) == 1
    (video, audio), (other_video, other_audio) = stream_digests(SAMPLE), stream_digests(target)
    assert (video.sha256 != other_video.sha256, audio.sha256 == other_audio.sha256) == (True, True)


def test_frames_are_those_that_ffmpeg_shows_at_these_numbers() -> None:
    frame = frames_at(SAMPLE, {21, 5000})[21]
    select = ["-vf", r"select=eq(n\,21)", "-frames:v", "1", "-pix_fmt", "bgr24", "-f", "rawvideo", "-"]
    raw = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", str(SAMPLE), *select], capture_output=True, check=True
    ).stdout
    shown = np.frombuffer(raw, np.uint8).reshape(576, 768, 3)
    assert float(np.abs(frame.astype(int) - shown).mean()) < 1.0


def test_the_demo_empties_only_folders_that_a_demo_made(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="not made by the demo"):
        open_demo_folder(mine, force=True)
    assert (mine / "thesis.txt").exists()
    made = open_demo_folder(tmp_path / "demo", force=False)
    (made.root / "protected.mp4").write_bytes(b"old")
    with pytest.raises(UsageError, match="--force"):
        open_demo_folder(tmp_path / "demo", force=False)
    assert not open_demo_folder(tmp_path / "demo", force=True).protected.exists()


def test_the_sheet_shows_every_picture_in_its_cell() -> None:
    colours = [(0, 0, 255), (0, 255, 0), (255, 0, 0)]
    pictures = tuple(np.full((120, 160, 3), colour, np.uint8) for colour in colours)
    moment = Moment(1.0, pictures, ((20.0, 20.0, 60.0, 80.0),), (20.0, 20.0, 60.0, 80.0))
    sheet = draw_sheet("t", [Column("a", ""), Column("b", ""), Column("c", "")], [moment], ["fact"])
    row = 114 + 20  # below the headings
    for index, colour in enumerate(colours):
        assert tuple(sheet[row, 24 + index * (CELL_WIDTH + 8) + CELL_WIDTH - 4]) == colour
