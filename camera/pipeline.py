"""capture -> protect -> encode, seal, publish: three threads with bounded queues between them.

Drop policy: a file waits, nothing is ever dropped. A camera (and a file played in real time) does not wait:
when protecting falls behind by ``queue_frames`` pictures, the oldest waiting picture is dropped and counted;
its source packets are sealed with the next picture, so in copy mode the sealed layer has no gap.

Shutdown: ``stop`` closes the source; what was captured is still protected and published, the open segment is
signed, then the broadcast closes. A failing stage ends the others the same way and leaves its reason in
``error``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol, Self

from base.errors import UsageError, VeilError
from base.frames import ClearFrame, ProtectedFrame
from camera.broadcast import Broadcast
from camera.fitting import fitted
from camera.publisher import CodingOptions, Publisher
from camera.rendition import SubRendition
from camera.sources.captured import Captured, Source
from camera.stage_queue import CameraQueue, StageQueue
from camera.stats import Meter, PipelineState, PipelineStats
from camera.workers import Workers
from codec.packets import SealedPacket
from keys import CameraKey, EpochRing

_PROTECTED_QUEUE = 1  # enough to keep both stages busy; more would only add delay


class FrameProtector(Protocol):
    """What the pipeline needs of models.Protector."""

    @property
    def model_id(self) -> bytes:
        """8 bytes that name the weights."""

    @property
    def backend(self) -> str:
        """The run-time in use."""

    @property
    def strength(self) -> int:
        """Its setting, for every segment's header."""

    def protect(self, frame: ClearFrame, *, renew: bool = False) -> ProtectedFrame:
        """The protected picture, same size and time, in memory that is not written to again.

        With ``renew`` nothing of earlier pictures is kept in it: a key frame begins here.
        """


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """Rates and limits of one pipeline."""

    coding: CodingOptions = field(default_factory=CodingOptions)
    queue_frames: int = 2  # pictures that may wait for the protector


class SubStream:
    """The smaller rendition as viewers see it."""

    def __init__(self, rendition: SubRendition) -> None:
        self._rendition = rendition

    @property
    def broadcast(self) -> Broadcast:
        """Where its units come from."""
        return self._rendition.broadcast

    def request_key_frame(self) -> None:
        """Ask for a new segment soon; at most one per 500 ms is granted."""
        self._rendition.key_requested.set()


class Pipeline:
    """One camera's pipeline.

    Units are published on ``broadcast`` (see camera.broadcast; a SealedUnit carries .unit, .starts_segment,
    .segment_index, .is_last). ``start`` returns at once; ``error`` holds the reason when a stage failed.
    Every method is safe from any thread.
    """

    def __init__(
        self,
        source: Source,
        protector: FrameProtector,
        camera_key: CameraKey,
        epochs: EpochRing | None,
        options: PipelineOptions | None = None,
        *,
        broadcast: Broadcast | None = None,
    ) -> None:
        """Connect the stages; nothing runs yet.

        Args:
            source: closed by the pipeline.
            protector: called from one thread.
            camera_key: signs every segment.
            epochs: keys of the sealed layer; None with sealed mode ``none`` only.
            options: defaults suit a live camera.
            broadcast: closed by the pipeline; subscribe before ``start`` to get everything.
        """
        self.broadcast = broadcast or Broadcast()
        self._sub_broadcast = Broadcast()
        self._source = source
        self._protector = protector
        options = options or PipelineOptions()
        self._meter = Meter()
        camera_queue = CameraQueue(options.queue_frames) if source.drops else None
        self._frames: StageQueue[Captured] = camera_queue or StageQueue(options.queue_frames)
        self._dropping = camera_queue
        self._protected: StageQueue[tuple[Captured, ProtectedFrame, bool]] = StageQueue(_PROTECTED_QUEUE)
        self._trailing: tuple[SealedPacket, ...] = ()
        self._publisher = Publisher(
            options.coding,
            camera_key=camera_key,
            epochs=epochs,
            model_id=protector.model_id,
            strength=int(protector.strength),
            broadcast=self.broadcast,
            meter=self._meter,
            source_name=source.name,
            live=source.drops,
            sub_broadcast=self._sub_broadcast if source.drops else None,
        )
        self._workers = Workers()
        self._on_protected: Callable[[ProtectedFrame], None] | None = None
        self._key_requested = threading.Event()
        self._lock = threading.Lock()
        self._asked: Literal["new", "running", "stopping"] = "new"

    def start(self) -> None:
        """Start the threads.

        Raises:
            UsageError: it was started before.
        """
        with self._lock:
            if self._asked != "new":
                message = f"pipeline: it was {self._asked} before, expected a new one"
                raise UsageError(message)
            self._asked = "running"
        self._workers.start("veilcam-publish", self._publish)
        self._workers.start("veilcam-protect", self._protect)
        self._workers.start("veilcam-capture", self._capture)

    def tell_protected(self, on_protected: Callable[[ProtectedFrame], None]) -> None:
        """Call ``on_protected`` with every protected frame, on the protector's thread: it must not wait."""
        self._on_protected = on_protected

    def stop(self) -> None:
        """Ask for the end and return at once: the open segment is signed and published, then all closes."""
        with self._lock:
            if self._asked == "new":
                self._sub_broadcast.close()
                self.broadcast.close()
            self._asked = "stopping"
        self._source.close()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; True when all threads are gone."""
        return self._workers.join(timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.join()

    @property
    def error(self) -> BaseException | None:
        """Why the pipeline stopped by itself; None while it runs or when it ended well."""
        return self._workers.error

    @property
    def state(self) -> PipelineState:
        """What the pipeline is doing; ``failed`` as soon as a stage failed."""
        if self.error is not None:
            return "failed"
        if self._asked != "new" and self._workers.join(0):
            return "ended"
        return self._asked

    def request_key_frame(self) -> None:
        """Ask for a new segment soon (a viewer joined or lost packets); at most one per 500 ms is granted."""
        self._meter.count("key_frame_requests")
        self._key_requested.set()

    @property
    def sub(self) -> SubStream | None:
        """The smaller rendition, for viewers on bad links; coded only while somebody watches it."""
        rendition = self._publisher.sub
        return None if rendition is None else SubStream(rendition)

    def stats(self) -> PipelineStats:
        """Counters at this moment."""
        meter, publisher = self._meter, self._publisher
        fps, bitrate_bps = meter.rates()
        width, height = publisher.size
        return PipelineStats(
            state=self.state,
            source_state=self._source.state,
            reconnects=self._source.reconnects,
            frames_in=meter.value("in"),
            frames_out=meter.value("out"),
            dropped={"behind": self._dropping.num_dropped if self._dropping else 0},
            key_frames=meter.value("key_frames"),
            key_frame_requests=meter.value("key_frame_requests"),
            segments=meter.value("segments"),
            fps=fps,
            bitrate_bps=bitrate_bps,
            published_bytes=meter.value("bytes"),
            sealed_bytes=meter.value("sealed_bytes"),
            epoch=publisher.epoch,
            source_age_s=meter.source_age_s(),
            uptime_s=meter.uptime_s(),
            width=width,
            height=height,
            sealed_mode=publisher.sealed_mode,
            pixels=publisher.pixels,
            protector=self._protector.backend,
            error="" if self.error is None else f"{type(self.error).__name__}: {self.error}",
            stages=meter.stage_times(),
        )

    def _capture(self) -> None:
        try:
            began_s = time.perf_counter()
            for captured in self._source:
                self._meter.add_time("capture", time.perf_counter() - began_s)
                self._meter.captured()
                if not self._frames.put(captured):
                    break
                began_s = time.perf_counter()
        finally:
            self._trailing = self._source.trailing_packets()
            self._frames.end()

    def _protect(self) -> None:
        size: tuple[int, int] | None = None
        try:
            for captured in self._frames:
                size = size or (captured.frame.width, captured.frame.height)
                starts = self._publisher.plan(captured, self._key_requested)
                with self._meter.timed("protect"):
                    protected = self._protector.protect(fitted(captured.frame, size), renew=starts)
                if self._on_protected is not None:
                    self._on_protected(protected)
                if not self._protected.put((captured, protected, starts)):
                    break
        finally:
            self._source.close()
            self._frames.abort()
            self._protected.end()

    def _publish(self) -> None:
        try:
            for captured, protected, starts in self._protected:
                self._publisher.push(captured, protected, self._source.rate, starts=starts)
            self._publisher.finish(self._trailing)
        except VeilError:
            # The units so far are good: sign them, so that the failure costs nothing that was recorded.
            with contextlib.suppress(VeilError):
                self._publisher.finish()
            raise
        finally:
            self._source.close()
            self._frames.abort()
            self._protected.abort()
            self._sub_broadcast.close()
            self.broadcast.close()
