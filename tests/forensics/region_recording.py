"""A recording whose original is split into regions: 256 x 192 pixels, 3 x 2 tiles, FFV1 or a lossy codec."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from av.video.frame import VideoFrame

from base.frames import ProtectedFrame
from codec.access_unit import AccessUnit
from codec.container import ContainerWriter
from codec.h264 import ProtectedEncoder
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.records import SealedMode
from codec.region_encoder import open_region_encoder
from codec.regions import RegionGrid
from codec.sealer import SealerParams, SegmentSealer
from codec.stream_info import region_extensions
from keys import EpochRing, RegionKeys, SegmentKeys
from keys.source import IdentityKeys, SegmentRef
from tests.forensics.recordings import FRAME_US, GOP, RATE, START_US, authority, camera_key

WIDTH, HEIGHT = 256, 192
GRID = RegionGrid.even(WIDTH, HEIGHT, 3, 2)
CLOCK_US = START_US - 5_000_000  # the source's clock began five seconds before the first picture
SOUND = SealedStream(
    6, StreamKind.AUDIO, "pcm_s16le", Fraction(1, 8000), sample_rate=8000, channel_layout="mono",
    extensions=region_extensions(None, CLOCK_US),
)  # fmt: skip
SAMPLES = 8000 // RATE


def original(number: int) -> VideoFrame:
    """A picture full of detail that differs from the protected one everywhere."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    luma = (200 - (columns * 3 + rows * 5 + number * 11) % 90).astype(np.uint8)
    frame = VideoFrame(WIDTH, HEIGHT, "yuv420p")
    for plane, samples in zip(frame.planes, (luma, luma[::2, ::2] // 2, luma[1::2, 1::2]), strict=True):
        padded = np.zeros((plane.height, plane.line_size), np.uint8)
        padded[:, : plane.width] = samples
        plane.update(padded.tobytes())
    return frame


def protected(number: int, time_us: int) -> ProtectedFrame:
    """Dark, flat, with a bar that moves."""
    luma = np.full((HEIGHT, WIDTH), 40, np.uint8)
    luma[:, (8 * number) % WIDTH : (8 * number) % WIDTH + 8] = 60
    chroma = np.full((HEIGHT // 2, WIDTH // 2), 128, np.uint8)
    return ProtectedFrame(luma, chroma, chroma, time_us)


def units(mode: SealedMode = SealedMode.FFV1, num_pictures: int = 3 * GOP) -> list[AccessUnit]:
    """The access units: segments of `GOP` pictures."""
    encoder = open_region_encoder(mode.name.lower(), original(0), GRID.columns, GRID.rows, rate=RATE)
    key = camera_key()
    params = SealerParams(
        WIDTH, HEIGHT, Fraction(1, 1_000_000), b"\x5a" * 8, 1, mode, (*encoder.streams(CLOCK_US), SOUND), GRID
    )  # fmt: skip
    sealer = SegmentSealer(key, EpochRing(key.camera_id, [authority()[0]]), params)
    shown = ProtectedEncoder(WIDTH, HEIGHT, rate=RATE, preset="ultrafast")
    done = []
    for number in range(num_pictures):
        starts = number % GOP == 0
        time_us = START_US + number * FRAME_US
        packets = encoder.encode(original(number), starts, time_us=time_us - CLOCK_US)
        sound_at = 5 * 8000 + number * SAMPLES
        packets.append(SealedPacket(SOUND.index, True, sound_at, sound_at, SAMPLES, sound(number)))
        unit = shown.encode(protected(number, time_us), starts)
        done += sealer.push(unit, packets, starts_segment=starts)
    return [each.unit for each in (*done, *sealer.finish())]


def sound(number: int) -> bytes:
    """A tenth of a second of noise."""
    return np.random.default_rng(number).integers(-9, 9, SAMPLES).astype("<i2").tobytes()


def write(path: Path, made: list[AccessUnit]) -> Path:
    """Mux them, whatever their order."""
    with ContainerWriter(path, WIDTH, HEIGHT, rate=RATE) as writer:
        for number, unit in enumerate(made):
            writer.write(replace(unit, pts_us=number * FRAME_US))
    return path


class SomeRegions:
    """A key source that holds some regions and nothing else, as a grant does."""

    def __init__(self, *regions: int) -> None:
        self._regions = regions
        self._custodian = IdentityKeys([authority()[1]])

    key_ids = ("00" * 16,)
    used_ids = ("00" * 16,)
    grant_id = "11" * 16

    def covers(self, segment: SegmentRef) -> bool:
        return self._custodian.covers(segment)

    def authorize(self, now_us: int, num_used: int) -> None:
        pass

    def segment_keys(self, segment: SegmentRef) -> SegmentKeys | RegionKeys:
        keys = self._custodian.segment_keys(segment)
        assert isinstance(keys, SegmentKeys)
        return RegionKeys({region: keys.region_key(region) for region in self._regions})
