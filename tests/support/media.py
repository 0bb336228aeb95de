"""Small real clips, made with PyAV."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from codec.packets import SealedPacket
from keys import CameraKey, EpochRing, Identity, Recipient


def picture(number: int, width: int = 160, height: int = 120, pixel_format: str = "yuv420p") -> VideoFrame:
    """A gradient that moves with ``number``."""
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([(x + 7 * number) % 256, (y + 3 * number) % 256, (x + y) % 256], axis=-1)
    frame = VideoFrame.from_ndarray(rgb.astype(np.uint8), format="rgb24")
    return frame if pixel_format == "rgb24" else frame.reformat(format=pixel_format)


def make_clip(
    path: Path,
    *,
    codec: str = "libx264",
    frames: int = 50,
    rate: int = 25,
    gop: int = 25,
    b_frames: int = 2,
    size: tuple[int, int] = (160, 120),
    pixel_format: str = "yuv420p",
    audio_s: float = 0.0,
    times: Sequence[Fraction] | None = None,
    options: dict[str, str] | None = None,
) -> Path:
    """Write a clip.

    Args:
        path: its ending picks the container.
        codec: FFmpeg encoder.
        frames: number of pictures.
        rate: pictures per second, unless ``times`` gives each picture's seconds.
        gop: distance of key frames.
        b_frames: between reference frames; only for x264 and x265.
        size: width and height.
        pixel_format: of the video.
        audio_s: seconds of AAC tone; 0 for none.
        times: seconds of each picture, for variable rates.
        options: for the encoder, added to what keeps it quick.
    """
    width, height = size
    with av.open(str(path), "w") as output:
        video = output.add_stream(codec, rate=rate, options=_options(codec, gop, b_frames) | (options or {}))
        if not isinstance(video, VideoStream):
            message = f"{codec} codes no video"
            raise TypeError(message)
        video.width, video.height, video.pix_fmt = width, height, pixel_format
        video.gop_size = gop
        if times is not None:
            video.codec_context.time_base = Fraction(1, 1000)
        sound = output.add_stream("aac", rate=48_000, layout="mono") if audio_s else None
        packets: list[Packet[Any]] = []
        for number in range(frames):
            frame = picture(number, width, height, pixel_format)
            frame.pts = number if times is None else round(times[number] * 1000)
            frame.time_base = Fraction(1, rate) if times is None else Fraction(1, 1000)
            packets += video.encode(frame)
        packets += video.encode(None)
        if sound is not None:
            for start in range(0, int(audio_s * 48_000), 1024):
                tone = (3000 * np.sin(0.05 * np.arange(start, start + 1024))).astype(np.float32) / 32768
                block = AudioFrame.from_ndarray(tone[None], format="fltp", layout="mono")
                block.sample_rate, block.pts, block.time_base = 48_000, start, Fraction(1, 48_000)
                packets += sound.encode(block)
            packets += sound.encode(None)
        for packet in packets:
            output.mux(packet)
    return path


def _options(codec: str, gop: int, b_frames: int) -> dict[str, str]:
    if codec == "libx264":
        return {
            "preset": "ultrafast",
            "bf": str(b_frames),
            "x264-params": f"scenecut=0:threads=1:keyint={gop}",
        }
    if codec == "libx265":
        return {
            "preset": "ultrafast",
            "x265-params": f"log-level=none:bframes={b_frames}:keyint={gop}:pools=none",
        }
    return {}


def demuxed(path: Path) -> list[tuple[str, int | None, int | None, bytes]]:
    """Every packet of a file in demux order: stream type, pts, dts, payload."""
    with av.open(str(path)) as container:
        return [
            (packet.stream.type, packet.pts, packet.dts, bytes(packet))
            for packet in container.demux()
            if packet.size
        ]


def num_pictures(path: Path) -> int:
    """Pictures that FFmpeg decodes."""
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


def sealed(stream: int, data: bytes, pts: int | None = 0, *, key: bool = False) -> SealedPacket:
    """A sealed packet with little to say."""
    return SealedPacket(stream, key, pts, pts, 1, data)


class Keys:
    """A camera, one recipient and their epochs."""

    def __init__(self) -> None:
        self.camera = CameraKey.generate("gate")
        recipient, self.identity = Recipient.generate("custody")
        self.epochs = EpochRing(self.camera.camera_id, [recipient])

    @property
    def identities(self) -> list[Identity]:
        return [self.identity]
