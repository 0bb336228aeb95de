"""What a lift shows of an original that is sealed in regions: as much as the keys open, over what all see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from analytics.encoded_unit import EncodedUnit
from camera.protect_file import protect_file
from camera.publisher import CodingOptions
from codec.container import read_access_units
from codec.unseal import OpenedSegment
from forensics.ledger import Ledger
from forensics.lift import Lift, Lifted, LiftOptions
from forensics.opening import Purpose
from keys import Identity, RegionKeys
from keys.source import IdentityKeys, SegmentRef
from tests.support.blur import BlurProtector
from tests.support.media import Keys, make_clip, picture

FRAMES = 60
WIDTH, HEIGHT, BORDER = 160, 120, 80


class Replayed:
    """A recording as a live stream."""

    num_dropped = 0

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __aiter__(self) -> AsyncIterator[EncodedUnit]:
        with read_access_units(self._path) as units:
            for unit in units:
                yield EncodedUnit(unit.annexb(), unit.pts_us, unit.is_keyframe)

    def request_key_frame(self) -> None:
        """Nobody to ask."""

    async def close(self) -> None:
        """Nothing is open."""


class OneRegion:
    """What a grant of one region alone gives."""

    grant_id = None

    def __init__(self, identity: Identity, region: int) -> None:
        self._all = IdentityKeys([identity])
        self._region = region
        self.key_ids = self._all.key_ids

    @property
    def used_ids(self) -> tuple[str, ...]:
        return self._all.used_ids

    def covers(self, segment: SegmentRef) -> bool:
        return self._all.covers(segment)

    def authorize(self, now_us: int, num_used: int) -> None:
        """Always."""

    def segment_keys(self, segment: SegmentRef) -> RegionKeys:
        return RegionKeys({self._region: self._all.segment_keys(segment).region_key(self._region)})


async def lifted(
    recording: Path, keys: Keys, source: IdentityKeys | OneRegion, ledger: Path
) -> tuple[Lifted, list[OpenedSegment]]:
    shown: list[OpenedSegment] = []

    async def take(segment: OpenedSegment) -> None:
        shown.append(segment)

    lift = Lift(source, Ledger(ledger), LiftOptions(60.0, Purpose("a search"), keys.camera.public))
    return await lift.run(Replayed(recording), take), shown


@pytest.fixture(scope="module")
def keys() -> Keys:
    return Keys()


@pytest.fixture(scope="module")
def recording(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    clip = make_clip(folder / "in.mkv", codec="ffv1", frames=FRAMES, b_frames=0, audio_s=2.2)
    coding = CodingOptions(sealed="ffv1", sealed_regions=(2, 1), preset="ultrafast")
    path = folder / "out.mkv"
    protect_file(
        clip,
        path,
        protector=BlurProtector(),
        camera_key=keys.camera,
        epochs=keys.epochs,
        coding=coding,
    )
    return path


def luma_of(segments: list[OpenedSegment]) -> list[npt.NDArray[np.uint8]]:
    """Decoded by one decoder over all segments, as a player does."""
    (stream,) = {segment.streams for segment in segments}
    assert [one.codec for one in stream] == ["h264"]
    decoder = av.CodecContext.create("h264", "r")
    decoder.extradata = stream[0].extradata
    packets = [packet for segment in segments for packet in segment.packets]
    times = [packet.pts or 0 for packet in packets]
    assert times == sorted(set(times))
    frames = [frame for packet in packets for frame in decoder.decode(av.Packet(packet.data))]
    return [np.asarray(frame.to_ndarray()[:HEIGHT], np.uint8) for frame in (*frames, *decoder.decode(None))]


def error_of(shown: npt.NDArray[np.uint8], number: int, columns: slice) -> float:
    original = picture(number).to_ndarray()[:HEIGHT]
    return float(np.abs(shown[:, columns].astype(int) - original[:, columns]).mean())


async def test_all_regions_come_back_as_one_picture(recording: Path, keys: Keys, tmp_path: Path) -> None:
    result, segments = await lifted(recording, keys, IdentityKeys([keys.identity]), tmp_path / "ledger")
    assert len(result.opened) == len(segments) >= 2
    assert not result.damaged
    pictures = luma_of(segments)
    assert len(pictures) == FRAMES
    errors = [error_of(shown, number, slice(0, WIDTH)) for number, shown in enumerate(pictures)]
    assert max(errors) < 4.0  # coded anew


async def test_one_region_is_shown_and_the_other_stays_protected(
    recording: Path, keys: Keys, tmp_path: Path
) -> None:
    source = OneRegion(keys.identity, 1)
    result, segments = await lifted(recording, keys, source, tmp_path / "ledger")
    assert len(result.opened) == len(segments) >= 2
    pictures = luma_of(segments)
    assert len(pictures) == FRAMES
    opened = [error_of(shown, number, slice(BORDER, WIDTH)) for number, shown in enumerate(pictures)]
    closed = [error_of(shown, number, slice(0, BORDER)) for number, shown in enumerate(pictures)]
    assert max(opened) < 4.0
    assert min(closed) > 2 * max(opened)
