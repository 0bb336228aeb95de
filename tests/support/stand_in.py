"""A camera without a source and a protector: real encoder, sealer and broadcast, drawn pictures."""

from __future__ import annotations

import threading
import time
from fractions import Fraction
from types import TracebackType
from typing import Self

import numpy as np

from base.frames import ProtectedFrame
from camera.broadcast import Broadcast
from camera.rendition import SubRendition
from camera.stats import Meter, PipelineStats
from codec.h264 import BT709_LIMITED, ProtectedEncoder
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.records import SealedMode
from codec.sealer import SealerParams, SegmentSealer
from keys import CameraKey, EpochRing, Recipient

MICROSECOND = Fraction(1, 1_000_000)


def draw(width: int, height: int, index: int, noise: int = 0) -> ProtectedFrame:
    """A bright gradient with a dark box that moves, so that a decoder has something to get wrong.

    ``noise`` is the amplitude of grain on every fourth row, which costs bits.
    """
    rows, columns = np.mgrid[0:height, 0:width]
    luma = (90 + 90 * columns / width + 40 * rows / height).astype(np.uint8)
    left, top = (index * 7) % (width - 80), (index * 3) % (height - 80)
    luma[top : top + 80, left : left + 80] = 40
    if noise:
        rows_of_grain = luma[::4]
        grain = np.random.default_rng(index).integers(0, noise, rows_of_grain.shape, dtype=np.uint8)
        luma[::4] = rows_of_grain + grain
    cb = np.full((height // 2, width // 2), 110, np.uint8)
    cr = np.full((height // 2, width // 2), 150, np.uint8)
    return ProtectedFrame(luma, cb, cr, time.time_ns() // 1000)


class StandInSub:
    """A smaller rendition with its own encoder; what ``camera.webrtc.track.LiveRendition`` asks for."""

    def __init__(self, camera_key: CameraKey) -> None:
        self.broadcast = Broadcast()
        self.rendition = SubRendition(self.broadcast, camera_key, scale=2, crf=30)

    def request_key_frame(self) -> None:
        self.rendition.key_requested.set()


class StandInCamera:
    """What viewers need of a pipeline (``camera.webrtc.viewers.LiveCamera``), on one thread."""

    def __init__(
        self,
        *,
        width: int = 640,
        height: int = 360,
        fps: int = 25,
        gop_s: float = 2.0,
        sealed_bytes_per_frame: int = 4000,
        noise: int = 0,
    ) -> None:
        self.broadcast = Broadcast()
        self.num_key_requests = 0
        self.times_us: list[int] = []
        self._size = width, height
        self._fps = fps
        self._gop_s = gop_s
        self._noise = noise
        self._payload = bytes(sealed_bytes_per_frame)
        self._meter = Meter()
        self._key_wanted = threading.Event()
        self._stop = threading.Event()
        self._paused = threading.Event()
        self.camera_key = CameraKey.generate("stand-in")
        recipient, self.identity = Recipient.generate("recovery")
        self.sub = StandInSub(self.camera_key)
        self._epochs = EpochRing(self.camera_key.camera_id, [recipient])
        self._thread = threading.Thread(target=self._run, name="stand-in-camera")

    def __enter__(self) -> Self:
        self._thread.start()
        # A viewer that comes before the first picture is refused, which a busy machine makes likely.
        while self.broadcast.idle_s is None and self._thread.is_alive():
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.broadcast.close()
        self.sub.broadcast.close()

    def pause(self) -> None:
        """Give no more pictures until ``resume``."""
        self._paused.set()

    def resume(self) -> None:
        """Go on."""
        self._paused.clear()

    def request_key_frame(self) -> None:
        """Begin a new segment with the next picture."""
        self.num_key_requests += 1
        self._key_wanted.set()

    def stats(self) -> PipelineStats:
        """Counters at this moment."""
        fps, bitrate_bps = self._meter.rates()
        return PipelineStats(
            state="running",
            source_state="running",
            reconnects=0,
            frames_in=self._meter.value("in"),
            frames_out=self._meter.value("out"),
            dropped={"behind": 0},
            key_frames=self._meter.value("key"),
            key_frame_requests=self.num_key_requests,
            segments=self._meter.value("segments"),
            fps=fps,
            bitrate_bps=bitrate_bps,
            published_bytes=self._meter.value("bytes"),
            sealed_bytes=self._meter.value("out") * len(self._payload),
            epoch=self._epochs.current().epoch_id.hex()[:8],
            source_age_s=self._meter.source_age_s(),
            uptime_s=self._meter.uptime_s(),
            width=self._size[0],
            height=self._size[1],
            sealed_mode="h264",
            pixels="off",
            protector="stand-in",
            error="",
            stages=self._meter.stage_times(),
        )

    def _run(self) -> None:
        width, height = self._size
        encoder = ProtectedEncoder(width, height, rate=self._fps, preset="ultrafast")
        stream = SealedStream(
            index=0, kind=StreamKind.VIDEO, codec="h264", time_base=MICROSECOND, width=width, height=height
        )
        sealer = SegmentSealer(
            self.camera_key,
            self._epochs,
            SealerParams(width, height, MICROSECOND, b"standin!", 0, SealedMode.H264, (stream,)),
        )
        segment_start_s, index, next_s = 0.0, 0, time.monotonic()
        while not self._stop.is_set():
            next_s += 1 / self._fps
            if self._stop.wait(max(0.0, next_s - time.monotonic())):
                break
            if self._paused.is_set():
                segment_start_s = 0.0
                continue
            self._meter.captured()
            frame = draw(width, height, index, self._noise)
            index += 1
            starts = self._key_wanted.is_set() or time.monotonic() - segment_start_s >= self._gop_s
            if starts:
                segment_start_s = time.monotonic()
                self._key_wanted.clear()
                self._meter.count("key")
                self._meter.count("segments")
            with self._meter.timed("encode"):
                unit = encoder.encode(frame, starts)
            self.sub.rendition.push(
                frame,
                cut=starts,
                rate=Fraction(self._fps),
                colour=BT709_LIMITED,
                model_id=b"standin!",
                strength=0,
            )
            packet = SealedPacket(0, starts, frame.time_us, frame.time_us, None, self._payload)
            for sealed in sealer.push(unit, [packet], starts_segment=starts):
                self._meter.published(sealed.unit.num_bytes)
                self.times_us.append(sealed.unit.pts_us)
                self.broadcast.publish(sealed)
