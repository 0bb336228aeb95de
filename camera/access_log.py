"""Who looked, when and at what: kept in memory for the page, one line per request goes to the log as ever.

    GET /api/v1/access      the last entries, newest first

A client's address is personal data: it is kept for at most 500 entries and until the camera stops.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

from aiohttp import web

KEPT = 500
SAME_WITHIN_S = 120.0
Action = Literal[
    "live-opened",
    "live-closed",
    "push-began",
    "push-ended",
    "recording-watched",
    "recording-downloaded",
    "detections-sent",
    "refused",
]
_RECORDING = re.compile(r"/api/v1/recordings/[^/]+/([^/]+)(/\d+)?")
_LOOK_BACK = 20


@dataclass(slots=True)
class AccessEntry:
    """One thing that one client did, perhaps several times in a row.

    Attributes:
        client: address.
        action: what.
        detail: file name, or why it was refused.
        first_s: Unix seconds.
        last_s: Unix seconds of the last time.
        count: how often.
    """

    client: str
    action: Action
    detail: str
    first_s: float
    last_s: float
    count: int = 1


class AccessLog:
    """Remembers what matters of the requests that were answered."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._entries: deque[AccessEntry] = deque(maxlen=KEPT)

    def add_to(self, app: web.Application) -> None:
        """Look at every answer of an application, and serve the list."""
        app.on_response_prepare.append(self._look)
        app.router.add_get("/api/v1/access", self._list)

    def entries(self) -> list[AccessEntry]:
        """Newest first."""
        return sorted(self._entries, key=lambda entry: -entry.last_s)

    def note(self, client: str, action: Action, detail: str = "") -> None:
        """Add an entry, or count it to the same one of the last two minutes."""
        now_s = round(self._clock(), 3)
        for entry in list(self._entries)[: -_LOOK_BACK - 1 : -1]:
            same = (entry.client, entry.action, entry.detail) == (client, action, detail)
            if same and now_s - entry.last_s <= SAME_WITHIN_S and not action.startswith(("live", "push")):
                entry.last_s = now_s
                entry.count += 1
                return
        self._entries.append(AccessEntry(client, action, detail, now_s, now_s))

    async def _look(self, request: web.Request, response: web.StreamResponse) -> None:
        found = classify(request.method, request.path, response.status)
        if found is not None:
            self.note(request.remote or "?", *found)

    async def _list(self, _request: web.Request) -> web.Response:
        body = json.dumps({"entries": [asdict(entry) for entry in self.entries()]}).encode()
        return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})


def classify(method: str, path: str, status: int) -> tuple[Action, str] | None:
    """What an answered request means to people; None for what nobody wants to read. Pure."""
    if status in (401, 403, 429):
        reasons = {401: "no or wrong token", 403: "foreign page", 429: "too many requests"}
        return "refused", reasons[status]
    if status >= 300:
        return None
    if path.startswith(("/whep", "/whip")):
        return _session(method, path)
    if method == "POST" and path == "/api/v1/detections":
        return "detections-sent", ""
    match = _RECORDING.fullmatch(path)
    if match is None or method != "GET":
        return None
    return ("recording-watched" if match[2] else "recording-downloaded"), match[1]


def _session(method: str, path: str) -> tuple[Action, str] | None:
    """Somebody watches (WHEP), or pushes the camera's picture (WHIP)."""
    pushes = path.startswith("/whip")
    if method == "POST" and path in ("/whep", "/whip"):
        return ("push-began" if pushes else "live-opened"), ""
    if method == "DELETE":
        return ("push-ended" if pushes else "live-closed"), ""
    return None
