"""RTSP and SRT publishing through libav, on a thread of its own that reconnects for ever.

Both go through a pipe to a process that speaks the protocol: PyAV's wheels have no SRT, and PyAV keeps the
global lock while libav connects to an RTSP server. The subscription behind it is bounded and skips: a server
that is away, slow or hung costs units, never the pipeline's time. What is sent are the published bytes
themselves; nothing is encoded again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

import av
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream

from analytics.piped_program import PipedProgram
from analytics.srt_program import SrtProgram
from base.errors import MediaError, VeilError
from camera.broadcast import Broadcast, QueueLimits, WhenFull
from camera.gop_queue import GopQueue
from camera.outputs.rtsp_program import RtspProgram
from camera.outputs.target import OutputState, Phase, Protocol, PublishTarget
from camera.sources.backoff import Backoff
from codec.muxer import add_stream
from codec.nal import join_annexb
from codec.packets import SealedStream, StreamKind
from codec.records import SegmentHeader
from codec.segments import view_unit

if TYPE_CHECKING:
    from codec.sealer import SealedUnit

logger = logging.getLogger(__name__)

QUEUE = QueueLimits(max_units=256, max_bytes=16 * 1024 * 1024)
STALL_S = 8.0  # a server that takes nothing for so long is given up
MAX_PAUSE_S = 2.0  # with the wait for a key frame, a restarted media server is found again within 5 s
_MICROSECOND = Fraction(1, 1_000_000)
_TICK_S = 0.5
_OPTIONS = {"pat_period": "0.5", "muxdelay": "0"}


class LibavOutput:
    """One RTSP or SRT target."""

    def __init__(self, target: PublishTarget, broadcast: Broadcast, *, stall_s: float = STALL_S) -> None:
        """Subscribe; ``start`` begins to send."""
        self._target = target
        self._broadcast = broadcast
        self._stall_s = stall_s
        name = f"publish {target.name}"
        subscription = broadcast.subscribe(name, limits=QUEUE, when_full=WhenFull.SKIP)
        self._subscription = subscription
        self._units_in = GopQueue(subscription) if target.carrier == "gop" else subscription
        self._stop = threading.Event()
        self._backoff = Backoff(base_s=0.5, cap_s=MAX_PAUSE_S)
        self._phase: Phase = "waiting"
        self._units = self._bytes = self._reconnects = 0
        self._error = ""
        self._busy_since_s: float | None = None
        self._program: PipedProgram | None = None
        name = f"veilcam-publish-{target.protocol.value}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._watch = threading.Thread(target=self._watch_stalls, name=f"{name}-watch", daemon=True)

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()
        self._watch.start()

    def close(self, timeout_s: float = 5.0) -> bool:
        """End it; True when its threads are gone. A hung connection is cut."""
        self._stop.set()
        self._broadcast.unsubscribe(self._subscription)
        deadline_s = time.monotonic() + timeout_s
        if self._thread.ident is not None:
            self._thread.join(timeout_s / 2)
            if self._thread.is_alive():
                self._cut()
            self._thread.join(max(0.0, deadline_s - time.monotonic()))
            self._watch.join(max(0.1, deadline_s - time.monotonic()))
        return not (self._thread.is_alive() or self._watch.is_alive())

    def state(self) -> OutputState:
        """What it does at this moment; safe from any thread."""
        skipped = self._subscription.stats().skipped_units
        return OutputState(
            self._target.name,
            self._phase,
            self._target.layer,
            self._reconnects,
            self._units,
            self._bytes,
            skipped,
            self._error,
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            sent_before = self._units
            try:
                if not self._publish():
                    break
                self._note("the stream ended")
            except (av.FFmpegError, OSError, ValueError) as error:
                self._note(getattr(error, "strerror", None) or type(error).__name__)
            except VeilError as error:
                self._note(str(error))
            finally:
                self._busy_since_s = None
            if self._stop.is_set() or self._subscription.ended:
                break
            if self._units > sent_before:
                self._backoff.reset()
            self._phase = "waiting"
            self._reconnects += 1
            self._stop.wait(self._backoff.next_delay_s())
        self._phase = "stopped"
        self._broadcast.unsubscribe(self._subscription)

    def _next_start(self) -> SealedUnit | None:
        """The newest unit that a stream can begin with; what is older is of no use to a new connection."""
        self._units_in.skip_to_newest_start()
        while not self._stop.is_set() and not self._subscription.ended:
            unit = self._units_in.get(_TICK_S)
            if unit is not None and unit.starts_segment:
                return unit
        return None

    def _publish(self) -> bool:
        """One connection; False when there is nothing more to publish."""
        with self._carrier():  # starts while the next key frame is waited for
            first = self._next_start()
            if first is None:
                return False
            self._phase = "connecting"
            self._publish_into(first)
        return True

    @contextmanager
    def _carrier(self) -> Iterator[None]:
        """The process that speaks the protocol."""
        program: PipedProgram
        if self._target.protocol is Protocol.SRT:
            program = SrtProgram(self._target.url, sends=True)
        else:
            program = RtspProgram(self._target.url)
        try:
            with program:
                self._program = program
                yield
        except (av.FFmpegError, OSError):
            if isinstance(program, RtspProgram) and program.reason:
                raise MediaError(program.reason) from None  # what it said last is why the pipe broke
            raise
        finally:
            self._program = None

    def _publish_into(self, first: SealedUnit) -> None:
        container, stream = self._open(first)
        try:
            self._phase = "publishing"
            self._send(container, stream, first, first.unit.pts_us)
            origin_us, skips = first.unit.pts_us, self._subscription.stats().skips
            while not self._stop.is_set():
                unit = self._units_in.get(_TICK_S)
                if unit is None:
                    if self._subscription.ended:
                        return
                    continue
                if unit.starts_segment and unit.unit.parameter_sets() != first.unit.parameter_sets():
                    raise MediaError("the picture's size changed")
                now_skips = self._subscription.stats().skips
                if now_skips != skips:
                    logger.info("publish %s: too slow, went on with a key frame", self._target.name)
                    skips = now_skips
                self._send(container, stream, unit, origin_us)
        finally:
            self._busy_since_s = time.monotonic()
            container.close()
            self._busy_since_s = None

    def _open(self, first: SealedUnit) -> tuple[OutputContainer, Stream]:
        assert self._program is not None  # noqa: S101  (for the type checker: see _carrier)
        self._busy_since_s = time.monotonic()
        container = av.open(self._program.pipe, "w", format="mpegts", container_options=_OPTIONS)
        try:
            width, height = _picture_size(first)
            stream = add_stream(
                container,
                SealedStream(
                    index=0,
                    kind=StreamKind.VIDEO,
                    codec="h264",
                    time_base=Fraction(1, 90_000),
                    width=width,
                    height=height,
                    pixel_format="yuv420p",
                    extradata=join_annexb(first.unit.parameter_sets()),
                ),
            )
            container.start_encoding()
        except BaseException:
            container.close()
            raise
        self._busy_since_s = None
        return container, stream

    def _send(self, container: OutputContainer, stream: Stream, unit: SealedUnit, origin_us: int) -> None:
        shown = unit.unit if self._target.layer == "sealed" else unit.unit.without_sealed()
        packet: Packet[Stream] = Packet(shown.annexb())
        packet.stream = stream
        packet.time_base = _MICROSECOND
        packet.pts = packet.dts = unit.unit.pts_us - origin_us
        packet.is_keyframe = shown.is_keyframe
        size = packet.size
        self._busy_since_s = time.monotonic()
        container.mux_one(packet)
        self._busy_since_s = None
        self._units += 1
        self._bytes += size

    def _note(self, reason: str) -> None:
        if reason != self._error:
            logger.warning("publish %s: %s", self._target.name, reason)
        self._error = reason

    def _watch_stalls(self) -> None:
        while not self._stop.wait(_TICK_S) and self._thread.is_alive():
            since_s = self._busy_since_s
            if since_s is not None and time.monotonic() - since_s > self._stall_s:
                logger.warning("publish %s: nothing taken for %.0f s", self._target.name, self._stall_s)
                self._cut()

    def _cut(self) -> None:
        if (program := self._program) is not None:
            program.kill()


def _picture_size(first: SealedUnit) -> tuple[int, int]:
    """Width and height as the segment's header says them.

    Raises:
        MediaError: there is no header.
    """
    meta = view_unit(first.unit).meta
    if meta is None or meta.header is None:
        message = "a segment starts without a header"
        raise MediaError(message)
    header = SegmentHeader.parse(meta.header)
    return header.width, header.height
