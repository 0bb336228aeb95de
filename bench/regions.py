"""What splitting the sealed original into regions costs: ``python -m bench.regions CLIP [CLIP ...]``.

For every codec: bytes, PSNR of luma, and CPU time of the encoders alone, for the original sealed as one and
for grids of 1x1, 2x2 and 4x4 tiles. "carried" is what the SEALED messages of the real sealer take, and the
last column that against what the whole original takes at the same PSNR (log-linear between two qualities).
One thread; CPU time does not depend on what else the machine does, wall-clock time would.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.packet import Packet
from av.stream import Stream
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from codec.access_unit import AccessUnit
from codec.packets import SealedPacket, SealedStream
from codec.planes import plane_rows
from codec.records import SealedMode
from codec.region_encoder import RegionEncoder, open_region_encoder
from codec.regions import RegionGrid
from codec.sealed_encoder import SealedEncoder, open_sealed_encoder
from codec.sealer import SealedUnit, SealerParams, SegmentSealer
from keys import CameraKey, EpochRing, Recipient

GRIDS = (None, (1, 1), (2, 2), (4, 4))
SEGMENT_S = 2
BETTER_CRF = {"h264": 17.0, "hevc": 19.0, "av1": 25.0}


def pictures_of(path: Path, count: int) -> tuple[list[VideoFrame], Fraction]:
    """The first pictures of a clip, and its rate."""
    with av.open(str(path)) as container:
        rate = container.streams.video[0].average_rate or Fraction(25)
        frames = []
        for frame in container.decode(video=0):
            frames.append(frame)
            if len(frames) == count:
                break
        return frames, Fraction(rate)


def psnr(pictures: list[VideoFrame], decoded: dict[int, list[VideoFrame]], grid: RegionGrid) -> float:
    """Of luma, over all pictures together, in dB."""
    error = num_samples = 0.0
    for number, picture in enumerate(pictures):
        whole = plane_rows(picture.planes[0], grid.width)
        for region, tile in enumerate(grid.tiles()):
            have = plane_rows(decoded[region][number].planes[0], tile.width).astype(np.int32)
            want = whole[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width]
            error += float(((have - want) ** 2).sum())
            num_samples += have.size
    return 10 * math.log10(255**2 * num_samples / error) if error else math.inf


def decode(stream: SealedStream, packets: list[SealedPacket]) -> list[VideoFrame]:
    """All pictures of one stream."""
    name = "libdav1d" if stream.codec == "av1" else stream.codec
    decoder = cast(VideoCodecContext, av.CodecContext.create(name, "r"))
    decoder.extradata = stream.extradata or None
    decoder.width, decoder.height = stream.width, stream.height
    frames: list[VideoFrame] = []
    for packet in packets:
        coded: Packet[Stream] = Packet(packet.data)
        coded.pts = packet.pts
        frames += decoder.decode(coded)
    return frames + decoder.decode(None)


@dataclass(frozen=True)
class Measured:
    """Bytes of the coded pictures, of the messages that carry them, and what they cost and look like."""

    payload: int
    carried: int
    psnr_db: float
    cpu_ms: float


def measure(
    mode: str,
    pictures: list[VideoFrame],
    rate: Fraction,
    split: tuple[int, int] | None,
    crf: float | None = None,
) -> Measured:
    """Encode, seal and decode the pictures."""
    encoder: SealedEncoder | RegionEncoder
    if split is None:
        encoder = open_sealed_encoder(mode, pictures[0], rate=rate, crf=crf)
        streams: tuple[SealedStream, ...] = (encoder.stream,)
        grid = RegionGrid((0, encoder.stream.width), (0, encoder.stream.height))
    else:
        encoder = open_region_encoder(mode, pictures[0], *split, rate=rate, crf=crf)
        streams, grid = encoder.streams(0), encoder.grid
    every = max(round(SEGMENT_S * rate), 1)
    packets: dict[int, list[SealedPacket]] = {stream.index: [] for stream in streams}
    sealing = Sealing(streams, grid if split else None)
    cpu_s = 0.0
    for number, picture in enumerate(pictures):
        began_s = time.process_time()
        made = encoder.encode(picture, number % every == 0, time_us=number * 40_000)
        cpu_s += time.process_time() - began_s
        sealing.push(made, number, is_first=number % every == 0)
        for packet in made:
            packets[packet.stream_index].append(packet)
    encoder.flush()
    decoded = {index: decode(stream, packets[index]) for index, stream in enumerate(streams)}
    return Measured(
        sum(len(packet.data) for each in packets.values() for packet in each),
        sealing.finish(),
        psnr(pictures, decoded, grid),
        1000 * cpu_s / len(pictures),
    )


class Sealing:
    """The real sealer over pictures that take no room; counts the bytes of SEALED messages."""

    def __init__(self, streams: tuple[SealedStream, ...], grid: RegionGrid | None) -> None:
        camera = CameraKey.generate("bench")
        ring = EpochRing(camera.camera_id, [Recipient.generate("bench")[0]])
        params = SealerParams(64, 64, Fraction(1, 1_000_000), bytes(8), 0, SealedMode.H264, streams, grid)
        self._sealer = SegmentSealer(camera, ring, params, unit_cap_bytes=8 << 20)
        self._num_bytes = 0

    def push(self, packets: list[SealedPacket], number: int, *, is_first: bool) -> None:
        """Seal what was made of one picture."""
        slice_nal = (
            (b"\x65" if is_first else b"\x41") + number.to_bytes(4, "big").replace(b"\0", b"\5") + b"\x80"
        )
        nals = (b"\x67\x42\x80", b"\x68\xce\x80", slice_nal) if is_first else (slice_nal,)
        unit = AccessUnit.from_nals(nals, number * 40_000)
        self._count(self._sealer.push(unit, packets, starts_segment=is_first))

    def finish(self) -> int:
        """The bytes of all SEALED messages."""
        self._count(self._sealer.finish())
        return self._num_bytes

    def _count(self, done: list[SealedUnit]) -> None:
        self._num_bytes += sum(each.unit.num_bytes - each.unit.without_sealed().num_bytes for each in done)


def rows(mode: str, pictures: list[VideoFrame], rate: Fraction) -> Iterator[str]:
    """A row for each grid."""
    whole = measure(mode, pictures, rate, None)
    better = None if mode == "ffv1" else measure(mode, pictures, rate, None, BETTER_CRF[mode])
    for split in GRIDS:
        found = whole if split is None else measure(mode, pictures, rate, split)
        equal = float(whole.carried)
        if better is not None:
            share = (found.psnr_db - whole.psnr_db) / (better.psnr_db - whole.psnr_db)
            equal *= (better.carried / whole.carried) ** share
        kbps = found.carried * 8 * float(rate) / len(pictures) / 1000
        yield (
            f"{mode:5} {'whole' if split is None else f'{split[0]}x{split[1]}':6}"
            f" payload {found.payload:9d} B  carried {found.carried:9d} B {kbps:8.0f} kbit/s"
            f" {100 * (found.carried / whole.carried - 1):+6.1f} %  {found.psnr_db:6.2f} dB"
            f"  at equal PSNR {100 * (found.carried / equal - 1):+6.1f} %"
            f"  {found.cpu_ms:6.2f} ms CPU per picture"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", nargs="+", type=Path)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--mode", nargs="*", default=["h264", "hevc", "av1", "ffv1"])
    arguments = parser.parse_args()
    for clip in arguments.clips:
        pictures, rate = pictures_of(clip, arguments.pictures)
        print(f"{clip.name}: {len(pictures)} pictures {pictures[0].width}x{pictures[0].height}")
        for mode in arguments.mode:
            for row in rows(mode, pictures, rate):
                print(row, flush=True)


if __name__ == "__main__":
    main()
