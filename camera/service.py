"""``camera run``: pipeline, recorder, viewers and HTTP server as one thing that starts and ends in order.

Start: bind the address first (the commonest mistake is a port in use, and then nothing has begun),
subscribe the recorder, then start the pipeline, so that the first picture is recorded.
End, at SIGTERM, SIGINT or when the source has ended: the pipeline signs its open segment, viewers and HTTP
are closed meanwhile, the recorder writes what is queued. A second signal ends at once.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from analytics.event_outlet import EventOutlet, EventTarget
from analytics.pool import PoolResult
from base.errors import MediaError, VeilError
from camera.access import require_push_token
from camera.access_log import AccessLog
from camera.edge_detection import EdgeDetection, EdgeOptions
from camera.edge_report import picture_of, tiles_message
from camera.events import EventHub
from camera.events_watch import CameraMoment, CameraWatch
from camera.http import HttpOptions, HttpServer, ServerPart
from camera.outputs import Outputs, PublishTarget
from camera.pipeline import Pipeline
from camera.recorder import Recorder, RecorderOptions
from camera.recordings import RecordingFolder
from camera.recordings_api import RecordingsApi
from camera.rtsp import RtspOptions, RtspServer
from camera.sources.pushed import PushedSource
from camera.state import CameraView
from camera.stream_metrics import StreamStates
from camera.webrtc.endpoint import ENDPOINT
from camera.webrtc.ingest import ENDPOINT as INGEST
from camera.webrtc.ingest import WhipIngest
from camera.webrtc.viewers import Viewers

logger = logging.getLogger(__name__)

POLL_S = 0.25
END_TIMEOUT_S = 20.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What ``camera run`` needs beside the pipeline."""

    name: str = "camera"  # shown on the page
    http: HttpOptions = field(default_factory=HttpOptions)
    max_viewers: int = 16
    record: RecorderOptions | None = None
    events: tuple[EventTarget, ...] = ()  # where events go, beside the page
    publish: tuple[PublishTarget, ...] = ()  # media servers
    rtsp: RtspOptions | None = None  # for recorders that pull
    ingest: PushedSource | None = None  # the pipeline's source, when publishers push to it
    edge: EdgeOptions | None = None  # detection on edge workers


class CameraService:
    """One running camera."""

    def __init__(self, pipeline: Pipeline, options: ServiceOptions | None = None) -> None:
        """Connect the parts; nothing runs yet.

        Raises:
            UsageError: the address is not loopback and there is no token, publishers are to push and there
                is none either, or the workers cannot be meant.
        """
        self.options = options or ServiceOptions()
        self.pipeline = pipeline
        http = self.options.http
        if self.options.ingest is not None:
            require_push_token(http.token, http.ingest_token)
        self.viewers = Viewers(pipeline, max_viewers=self.options.max_viewers, ice_servers=http.ice_servers)
        self.outputs: Outputs | None = None
        self.rtsp: RtspServer | None = None
        self.recorder: Recorder | None = None
        self._view = CameraView(
            self.options.name,
            pipeline,
            self.viewers,
            lambda: self.recorder.state() if self.recorder is not None else None,
            self._streams,
        )
        self.events = EventHub(self.options.name, EventOutlet(self.options.events))
        self._watch = CameraWatch(self.events, self._moment)
        self._watching: asyncio.Task[None] | None = None
        self.edge: EdgeDetection | None = None
        if self.options.edge is not None:
            self.edge = EdgeDetection(self.options.edge, self._detected)
            pipeline.tell_protected(self.edge.offer)
        record = self.options.record
        folder = None if record is None else RecordingFolder(record.folder / record.camera_name)
        parts: list[ServerPart] = [RecordingsApi(folder), self.events, AccessLog()]
        if self.options.ingest is not None:
            parts.append(WhipIngest(self.options.ingest, http.ice_servers))
        self._server = HttpServer(self._view, http, parts)

    @property
    def url(self) -> str:
        """The page's address, with the real port once started."""
        return self._server.url + "/"

    @property
    def whep_url(self) -> str:
        """The WHEP endpoint's address."""
        return self._server.url + ENDPOINT

    @property
    def push_url(self) -> str | None:
        """The WHIP endpoint's address; None unless publishers push to this camera."""
        return None if self.options.ingest is None else self._server.url + INGEST

    async def start(self) -> None:
        """Bind, then record, then take pictures.

        Raises:
            UsageError: the recordings' folder cannot be used.
            ListenError: the address cannot be bound.
        """
        await self._server.start()
        try:
            if self.edge is not None:
                await self.edge.start()
            if self.options.rtsp is not None:
                self.rtsp = RtspServer(
                    self.options.rtsp, self.pipeline.broadcast, self.pipeline.request_key_frame
                )
                await asyncio.to_thread(self.rtsp.start)
            if self.options.record is not None:
                self.recorder = Recorder(self.pipeline.broadcast, self.options.record)
                self.recorder.start()
        except VeilError:
            if self.edge is not None:
                await self.edge.close()
            if self.rtsp is not None:
                await asyncio.to_thread(self.rtsp.close)
            await self._server.close()
            raise
        self.outputs = Outputs(self.options.publish, self.pipeline)
        self.outputs.start()
        self.pipeline.start()
        self.events.start()
        self._watching = asyncio.create_task(self._watch.run(), name="camera-watch")
        logger.info("camera %s: serving at %s", self.options.name, self.url)

    async def ended(self) -> None:
        """Wait until the source has ended or a stage has failed."""
        while not self.pipeline.join(0):
            await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        """End everything in order; harmless when repeated.

        Raises:
            VeilError: what the pipeline failed with.
            MediaError: a part did not end in time.
        """
        self.pipeline.stop()
        if self._watching is not None:
            self._watching.cancel()
        if self.edge is not None:
            await self.edge.close()
        await self.viewers.close()
        if self.outputs is not None:
            await self.outputs.close()
        if self.rtsp is not None:
            await asyncio.to_thread(self.rtsp.close)
        await self._server.close()
        done = await asyncio.to_thread(self.pipeline.join, END_TIMEOUT_S)
        if self.recorder is not None:
            done = await asyncio.to_thread(self.recorder.join, END_TIMEOUT_S) and done
        await self.events.close()
        logger.info("camera %s: stopped", self.options.name)
        if self.pipeline.error is not None:
            raise self.pipeline.error
        if not done:
            message = f"camera {self.options.name}: did not end within {END_TIMEOUT_S:.0f} s"
            raise MediaError(message)

    def _streams(self) -> StreamStates:
        """What goes out beside the viewers, for the state and the metrics."""
        outputs = self.outputs.states() if self.outputs is not None else []
        return StreamStates(
            tuple(outputs),
            self.rtsp.state() if self.rtsp is not None else None,
            self.edge.state() if self.edge is not None else None,
        )

    def _detected(self, result: PoolResult) -> None:
        """Boxes from the workers go the way of boxes that a detector posts."""
        assert self.edge is not None  # noqa: S101  # it has just called; for the type checker
        if not result.is_blind:
            self.events.detected(picture_of(result))
        self.events.tiled(tiles_message(result, self.edge.state().workers))

    def _moment(self) -> CameraMoment:
        recorder = None if self.recorder is None else self.recorder.state()
        return CameraMoment(
            live=self.viewers.is_live,
            recording=None if recorder is None else not recorder.error,
            recorder_error="" if recorder is None else recorder.error,
            viewers=frozenset(viewer.number for viewer in self.viewers.stats()),
            error=self.pipeline.stats().error,
        )


async def run_service(
    pipeline: Pipeline,
    options: ServiceOptions | None = None,
    *,
    on_ready: Callable[[CameraService], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run until the source ends, a signal comes or ``stop`` is set.

    Args:
        pipeline: not started yet.
        options: name, address, token, recorder.
        on_ready: called once the address is bound and the pipeline has started.
        stop: another way to end it (tests, an embedding program).

    Raises:
        UsageError: an address without a token that needs one, or the recordings' folder cannot be used.
        ListenError: the address cannot be bound.
        VeilError: what the pipeline failed with.
    """
    service = CameraService(pipeline, options)
    await service.start()
    stop = stop or asyncio.Event()
    release = _stop_at_signals(stop)
    waits = [asyncio.create_task(service.ended()), asyncio.create_task(stop.wait())]
    try:
        if on_ready is not None:
            on_ready(service)
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()
        release()
        await service.stop()


def serve_camera(
    pipeline: Pipeline,
    options: ServiceOptions | None = None,
    *,
    on_ready: Callable[[CameraService], None] | None = None,
) -> None:
    """``run_service`` for a program without an event loop; returns when the camera has ended."""
    asyncio.run(run_service(pipeline, options, on_ready=on_ready))


def _stop_at_signals(stop: asyncio.Event) -> Callable[[], None]:
    """Set ``stop`` at the first signal; its second one has the effect it always had. Returns the undoing."""
    loop = asyncio.get_running_loop()

    def release() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def stop_once() -> None:
        release()
        stop.set()

    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, stop_once)
    except (RuntimeError, ValueError):
        logger.debug("not on the main thread: signals are left alone")
    return release
