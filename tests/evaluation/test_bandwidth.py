"""Bits of real streams: everything is counted, and quality rises with bits."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from base.errors import MediaError
from base.frames import ClearFrame
from evaluation.bandwidth import ANCHORS, measure
from evaluation.camera import Camera, code_video, read_clip
from evaluation.context import Context
from evaluation.data import DataFolder
from tests.evaluation.test_run import CLIP
from tests.support.media import make_clip


def test_the_total_holds_protected_and_sealed_bits_and_more(tmp_path: Path) -> None:
    context = Context(data=DataFolder(tmp_path), camera=Camera(), cache=tmp_path)
    rates = measure(context, CLIP, 3)
    assert rates.pictures == 3
    assert rates.share == rates.protected_bits / rates.original_bits
    for (total, quality), (sealed, same) in zip(rates.total, rates.sealed, strict=True):
        assert quality == same
        # A file's encoder looks ahead: its protected layer is the smaller one.
        assert 0.5 * rates.protected_bits < total - sealed < 1.2 * rates.protected_bits
    for points in (rates.sealed, *rates.anchors.values()):
        assert all(one > other for one, other in pairwise(bits for bits, _ in points))
        assert all(one > other for one, other in pairwise(quality for _, quality in points))
    assert set(rates.anchors) == set(ANCHORS)
    # Protection cannot save bits of the layer that is not protected.
    for anchor in ANCHORS:
        assert rates.gain(anchor) < rates.gain(anchor, sealed_only=True)


def test_a_video_comes_back_frame_by_frame(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", frames=9, rate=2, size=(64, 48))
    frames, rate = read_clip(clip, first=2, count=6)
    assert rate == 2
    assert [frame.time_us for frame in frames] == [n * 500_000 for n in range(2, 8)]
    coded = code_video(frames, rate=rate, crf=10)
    assert len(coded.frames) == 6
    worst = max(
        np.abs(a.luma_hw.astype(int) - b.luma_hw).mean() for a, b in zip(frames, coded.frames, strict=True)
    )
    assert worst < 4


def test_what_is_no_video_is_a_media_error(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_bytes(b"not a video")
    with pytest.raises(MediaError, match="cannot be decoded"):
        read_clip(tmp_path / "x.mp4")
    with pytest.raises(MediaError, match="no picture at position 9"):
        read_clip(make_clip(tmp_path / "c.mp4", frames=3), first=9)


def test_pictures_of_odd_size_keep_it() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (47, 65, 3), np.uint8)
    assert Camera().still(picture).image.shape == picture.shape
    chroma = np.full((8, 8), 128, np.uint8)
    frame = ClearFrame(np.full((16, 16), 128, np.uint8), chroma, chroma, 0)
    assert code_video([frame], rate=25).bits > 0
