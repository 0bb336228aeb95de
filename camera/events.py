"""Events of one camera: what detectors send in, what the page and programs read, what goes out.

    POST /api/v1/detections        one picture's detections (a line of ``veilcam detect``) -> 204
    GET  /api/v1/events            the last events, oldest first; ``?after=N`` those behind number N
    GET  /api/v1/events/stream     server-sent events: ``detections`` (boxes of a picture), ``tiles`` (who
                                   detected in which part of it) and ``event``

A stream's queue holds 64 messages; a reader that is slower loses the oldest.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import deque
from dataclasses import asdict, dataclass, field

from aiohttp import web

from analytics.event_outlet import EventOutlet
from analytics.events import Counts, Event, ObjectEvent
from analytics.object_tracker import ObjectTracker
from base.errors import FormatError, LimitExceeded
from camera.detections import PictureDetections
from camera.problems import problem

KEPT_EVENTS = 500
MAX_STREAMS = 64
QUEUE_MESSAGES = 64
PING_S = 15.0

Json = dict[str, object]
_STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


@dataclass(slots=True, eq=False)
class _Reader:
    messages: deque[bytes] = field(default_factory=lambda: deque(maxlen=QUEUE_MESSAGES))
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, message: bytes) -> None:
        self.messages.append(message)
        self.ready.set()


class EventHub:
    """Where the events of one camera meet. All methods run on the event loop's thread."""

    def __init__(self, camera: str, outlet: EventOutlet | None = None) -> None:
        self.camera = camera
        self._outlet = outlet or EventOutlet([])
        self._tracker = ObjectTracker(camera)
        self._recent: deque[Json] = deque(maxlen=KEPT_EVENTS)
        self._numbers = itertools.count(1)
        self._readers: set[_Reader] = set()
        self._closed = asyncio.Event()

    def add_to(self, app: web.Application) -> None:
        """Put the routes into an application; its shutdown ends the streams."""
        app.router.add_post("/api/v1/detections", self._post)
        app.router.add_get("/api/v1/events", self._list)
        app.router.add_get("/api/v1/events/stream", self._stream)
        app.on_shutdown.append(self._shut_down)

    def start(self) -> None:
        """Connect to where events go."""
        self._outlet.start()

    async def close(self) -> None:
        """Send what is queued, for at most 5 s."""
        await asyncio.to_thread(self._outlet.close)

    def publish(self, *events: Event) -> None:
        """Tell everybody."""
        for event in events:
            self._outlet.offer(event)
            if isinstance(event, Counts) or (isinstance(event, ObjectEvent) and event.change == "update"):
                continue  # the page has the boxes; a list of comings and goings is what people read
            # The moment of telling, in the order of the numbers: an object's end is told a little later.
            shown = {"number": next(self._numbers), **event.to_json(), "time_s": round(time.time(), 3)}
            self._recent.append(shown)
            self._tell("event", shown)

    def detected(self, picture: PictureDetections) -> None:
        """Take one picture's detections; the time is now."""
        now_s = time.time()
        self._tell("detections", {"time_s": round(now_s, 3), **picture.to_json()})
        self.publish(*self._tracker.push(now_s, picture.rows))

    def tiled(self, message: Json) -> None:
        """Tell pages how a picture was shared out among edge workers."""
        self._tell("tiles", message)

    def tick(self) -> None:
        """Call about once a second: objects end when no more pictures come, too."""
        self.publish(*self._tracker.expire(time.time()))

    def recent(self, after: int = 0) -> list[Json]:
        """The last events, oldest first."""
        return [event for event in self._recent if int(str(event["number"])) > after]

    def _tell(self, kind: str, body: Json) -> None:
        if self._readers:
            message = f"event: {kind}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()
            for reader in self._readers:
                reader.put(message)

    async def _post(self, request: web.Request) -> web.Response:
        try:
            picture = PictureDetections.parse(await request.read())
        except FormatError as error:
            status = 413 if isinstance(error, LimitExceeded) else 400
            return problem(status, str(error), hint="Send a line of veilcam detect.", code="bad-detections")
        self.detected(picture)
        return web.Response(status=204)

    async def _list(self, request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        if not after.isascii() or not after.isdigit() or len(after) > 15:
            return problem(400, "after: expected a number", code="bad-number")
        targets = [asdict(target) for target in self._outlet.stats()]
        body = json.dumps({"events": self.recent(int(after)), "targets": targets}).encode()
        return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if len(self._readers) >= MAX_STREAMS:
            return problem(503, "too many event streams are open", code="rate", headers={"Retry-After": "10"})
        response = web.StreamResponse(headers=_STREAM_HEADERS)
        reader = _Reader()
        self._readers.add(reader)
        try:
            await response.prepare(request)
            await response.write(b": hello\n\n")
            await self._write(response, reader)
        except ConnectionError:
            pass  # the page was closed
        finally:
            self._readers.discard(reader)
        return response

    async def _write(self, response: web.StreamResponse, reader: _Reader) -> None:
        while not self._closed.is_set():
            while reader.messages:
                await response.write(reader.messages.popleft())
            reader.ready.clear()
            try:
                async with asyncio.timeout(PING_S):
                    await reader.ready.wait()
            except TimeoutError:
                await response.write(b": ping\n\n")  # notices a reader that has gone

    async def _shut_down(self, _app: web.Application) -> None:
        self._closed.set()
        for reader in self._readers:
            reader.ready.set()
