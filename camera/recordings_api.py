"""Recordings over HTTP: list, time line, protected segments for playback, whole files to keep.

GET /api/v1/recordings?day=YYYY-MM-DD      days, and the recordings of that day (the last one if left out)
GET /api/v1/recordings/DAY/NAME            the whole file with its sealed layer, ranges allowed
GET /api/v1/recordings/DAY/NAME/index      codec, size, and [start_us, duration_us] of every segment
GET /api/v1/recordings/DAY/NAME/head       ftyp and moov, for Media Source Extensions
GET /api/v1/recordings/DAY/NAME/N          segment N without its sealed layer: about what a viewer gets live
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

from aiohttp import web

from camera.problems import problem
from camera.recordings import NoRecordingError, RecordingFolder

PATH = "/api/v1/recordings"
T = TypeVar("T")

_FILE = PATH + "/{day}/{name}"
_IMMUTABLE = {"Cache-Control": "private, max-age=3600"}
_FRESH = {"Cache-Control": "no-store"}


class RecordingsApi:
    """Routes of one camera's recordings; ``folder`` None means that nothing is recorded."""

    def __init__(self, folder: RecordingFolder | None) -> None:
        self._folder = folder

    def add_to(self, app: web.Application) -> None:
        """Put the routes into an application."""
        app.router.add_get(PATH, self._list)
        app.router.add_get(_FILE, self._file)
        app.router.add_get(_FILE + "/index", self._index)
        app.router.add_get(_FILE + "/head", self._head)
        app.router.add_get(_FILE + r"/{number:\d{1,6}}", self._segment)

    async def _list(self, request: web.Request) -> web.Response:
        folder = self._folder
        if folder is None:
            return _json({"recording": False, "days": [], "day": None, "recordings": []})
        days = await asyncio.to_thread(folder.days)
        day = request.query.get("day") or (days[-1] if days else None)
        try:
            entries = await asyncio.to_thread(folder.list_day, day) if day else []
        except NoRecordingError as error:
            return problem(400, str(error), code="bad-day")
        rows = [asdict(entry) for entry in entries]
        return _json({"recording": True, "days": days, "day": day, "recordings": rows})

    async def _index(self, request: web.Request) -> web.Response:
        index = await self._read(request, lambda folder, day, name: folder.index(day, name))
        if isinstance(index, web.Response):
            return index
        rows = [[fragment.start_us, fragment.duration_us] for fragment in index.fragments]
        shown = {"codec": index.codec, "width": index.width, "height": index.height, "segments": rows}
        return _json(shown)

    async def _head(self, request: web.Request) -> web.Response:
        index = await self._read(request, lambda folder, day, name: folder.index(day, name))
        if isinstance(index, web.Response):
            return index
        return web.Response(body=index.head, content_type="video/mp4", headers=_FRESH)

    async def _segment(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        data = await self._read(request, lambda folder, day, name: folder.segment(day, name, number))
        if isinstance(data, web.Response):
            return data
        return web.Response(body=data, content_type="video/mp4", headers=_IMMUTABLE)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        path = await self._read(request, lambda folder, day, name: folder.path(day, name))
        if isinstance(path, web.Response):
            return path
        if not await asyncio.to_thread(path.is_file) or name.endswith(".part"):
            return _gone("no such recording")
        headers = {"Content-Disposition": f'attachment; filename="{name}"', **_FRESH}
        return web.FileResponse(path, headers=headers)

    async def _read(
        self, request: web.Request, read: Callable[[RecordingFolder, str, str], T]
    ) -> T | web.Response:
        """What ``read`` gives, in a thread; a 404 when it is not there."""
        if self._folder is None:
            return _gone("this camera does not record")
        where = request.match_info
        try:
            return await asyncio.to_thread(read, self._folder, where["day"], where["name"])
        except NoRecordingError as error:
            return _gone(str(error))


def _gone(detail: str) -> web.Response:
    hint = "It may have been deleted by the retention rules. Load the list again."
    return problem(404, detail, hint=hint, code="no-recording")


def _json(body: dict[str, object]) -> web.Response:
    data = json.dumps(body).encode()
    return web.Response(body=data, content_type="application/json", headers=_FRESH)
