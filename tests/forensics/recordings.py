"""Real recordings for the tests: ffmpeg makes the original, x264 the protected layer, codec seals."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame

from base.frames import ProtectedFrame
from codec.access_unit import AccessUnit
from codec.container import ContainerWriter, read_access_units
from codec.h264 import ProtectedEncoder
from codec.packets import SealedPacket, SealedStream
from codec.records import SealedMode
from codec.remux import capture_packet, describe_stream
from codec.sealed_encoder import open_sealed_encoder
from codec.sealer import SealerParams, SegmentSealer
from keys import CameraKey, CameraPublic, EpochRing, Identity, Recipient, SecretBytes
from keys.suite import Suite

WIDTH, HEIGHT, RATE = 128, 96, 10
GOP = 10  # pictures per segment: one second
FRAME_US = 1_000_000 // RATE
START_US = 1_700_000_000_000_000


@dataclass(frozen=True, slots=True)
class Recording:
    """A protected file with all that belongs to it."""

    path: Path
    source: Path | None
    camera: CameraPublic
    identity: Identity

    def units(self) -> list[AccessUnit]:
        """Its access units."""
        return units_of(self.path)


def camera_key(seed: int = 1) -> CameraKey:
    """The same camera at every call."""
    return CameraKey(f"camera-{seed}", SecretBytes(bytes([seed]) * 32))


def authority(seed: int = 1) -> tuple[Recipient, Identity]:
    """The same recipient at every call."""
    identity = Identity(f"authority-{seed}", Suite.X25519, SecretBytes(bytes([0x40 + seed]) * 32))
    return identity.recipient, identity


def ffmpeg(*arguments: str | Path) -> None:
    """Run Debian's ffmpeg, quietly."""
    command = ["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=60)


def make_source(
    path: Path,
    *,
    codec: str = "libx264",
    seconds: int = 6,
    audio: bool = True,
    gop: int = GOP,
    bframes: int = 2,
) -> Path:
    """An ordinary clip with B-frames, a key frame a second, and sound."""
    picture = f"testsrc2=size={WIDTH}x{HEIGHT}:rate={RATE}:duration={seconds}"
    tone = f"sine=frequency=440:sample_rate=16000:duration={seconds}"
    sources = ["-f", "lavfi", "-i", picture] + (["-f", "lavfi", "-i", tone] if audio else [])
    option, extra = {
        "libx264": ("-x264-params", ""),
        "libx265": ("-x265-params", ":log-level=none:open-gop=0"),
    }[codec]
    video = ["-c:v", codec, "-preset", "ultrafast", "-pix_fmt", "yuv420p"]
    video += [option, f"keyint={gop}:min-keyint={gop}:scenecut=0:bframes={bframes}{extra}"]
    sound = ["-c:a", "aac", "-b:a", "32k"] if audio else []
    ffmpeg(*sources, *video, *sound, path)
    return path


class Sealing:
    """Draws and codes a protected picture for every picture of the original, and seals."""

    def __init__(
        self,
        streams: Sequence[SealedStream],
        mode: SealedMode,
        *,
        camera: int = 1,
        epochs: EpochRing | None = None,
        start_us: int = START_US,
    ) -> None:
        key = camera_key(camera)
        params = SealerParams(WIDTH, HEIGHT, Fraction(1, 1_000_000), b"\x5a" * 8, 1, mode, tuple(streams))
        ring = epochs or EpochRing(key.camera_id, [authority()[0]])
        self._sealer = SegmentSealer(key, ring if mode is not SealedMode.NONE else None, params)
        self._encoder = ProtectedEncoder(WIDTH, HEIGHT, rate=RATE, preset="ultrafast")
        self._start_us = start_us
        self._count = 0
        self.units: list[AccessUnit] = []

    def push(
        self, packets: Sequence[SealedPacket], *, starts: bool, late: Sequence[SealedPacket] = ()
    ) -> None:
        """Seal one picture with the original's packets."""
        frame = draw(self._count, self._start_us + self._count * FRAME_US)
        self._count += 1
        unit = self._encoder.encode(frame, starts)
        done = self._sealer.push(unit, packets, starts_segment=starts, late_packets=late)
        self.units += [each.unit for each in done]

    def finish(self, packets: Sequence[SealedPacket] = ()) -> list[AccessUnit]:
        """All units."""
        self.units += [each.unit for each in self._sealer.finish(packets)]
        return self.units


def draw(index: int, time_us: int) -> ProtectedFrame:
    """A protected picture that is not the original: a gradient with a block that moves."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    luma = (60 + columns // 2 + rows // 2).astype(np.uint8)
    luma[20:60, (4 * index) % 80 : (4 * index) % 80 + 30] = 200
    chroma = np.full((HEIGHT // 2, WIDTH // 2), 120, np.uint8)
    return ProtectedFrame(luma, chroma, chroma, time_us)


def seal_copy(
    source: Path,
    *,
    camera: int = 1,
    epochs: EpochRing | None = None,
    every: int | None = None,
    start_us: int = START_US,
    before_segment: Mapping[int, Callable[[], None]] | None = None,
) -> list[AccessUnit]:
    """Copy mode: the source's own packets, sound included.

    A segment starts at each of its key frames, or every so many pictures whatever they are;
    ``before_segment`` is what happens to the camera in between.
    """
    with av.open(str(source)) as container:
        streams = [describe_stream(stream) for stream in container.streams]
        sealing = Sealing(streams, SealedMode.COPY, camera=camera, epochs=epochs, start_us=start_us)
        waiting: list[SealedPacket] = []
        number = num_segments = 0
        for packet in container.demux():
            if not packet.size:
                continue
            sealed = capture_packet(packet)
            if packet.stream.type != "video":
                waiting.append(sealed)
                continue
            late, waiting = waiting, []
            starts = number % every == 0 if every else packet.is_keyframe
            if starts:
                (before_segment or {}).get(num_segments, lambda: None)()
                num_segments += 1
                sealing.push([sealed], starts=True, late=late if number else ())
            else:
                sealing.push([*late, sealed], starts=False)
            number += 1
        return sealing.finish(waiting)


def seal_pictures(pictures: Iterable[VideoFrame], mode: SealedMode = SealedMode.FFV1) -> list[AccessUnit]:
    """A coded mode: the camera's own pictures, one segment every `GOP`."""
    encoder = sealing = None
    for number, picture in enumerate(pictures):
        if encoder is None:
            encoder = open_sealed_encoder(mode.name.lower(), picture, rate=RATE)
            sealing = Sealing([encoder.stream], mode)
        assert sealing is not None
        starts = number % GOP == 0
        packets = encoder.encode(picture, force_key=starts, time_us=number * FRAME_US)
        sealing.push(packets, starts=starts)
    assert sealing is not None
    return sealing.finish()


def write_units(path: Path, units: Iterable[AccessUnit]) -> Path:
    """Mux access units; times are evened out so that any order can be written."""
    with ContainerWriter(path, WIDTH, HEIGHT, rate=RATE) as writer:
        for number, unit in enumerate(units):
            writer.write(AccessUnit(unit.nals, number * FRAME_US, unit.is_keyframe))
    return path


def units_of(path: Path) -> list[AccessUnit]:
    """The access units of a file."""
    with read_access_units(path) as reader:
        return list(reader)


def payloads(path: Path) -> dict[str, list[bytes]]:
    """The packets of a file by kind of stream, as the demuxer gives them."""
    found: dict[str, list[bytes]] = {}
    with av.open(str(path)) as container:
        for packet in container.demux():
            if packet.size:
                found.setdefault(packet.stream.type, []).append(bytes(packet))
    return found


def pixels(path: Path) -> list[bytes]:
    """Every decoded picture of a file, as bytes in its own format."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray().tobytes() for frame in container.decode(video=0)]
