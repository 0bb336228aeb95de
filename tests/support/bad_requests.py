"""Requests that no decent client sends, by the thousand: a fuzzer of the camera's HTTP API.

Every request is drawn from one seed: methods, paths, headers and bodies that are right, damaged, or nonsense,
over connections that are kept, broken off and begun anew. What must hold: an answer within the deadline or a
closed connection, and no status 5xx but a 503 that says when to come back.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

ANSWER_S = 20.0
MAX_BODY_BYTES = 1 << 24
_OFFER = (Path(__file__).parents[1] / "camera" / "offers" / "chromium.sdp").read_bytes()
_FRAGMENT = (
    b"a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\n"
    b"a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag EsAw\r\n"
    b"a=end-of-candidates\r\n"
)
_DETECTIONS = json.dumps(
    {
        "width": 640,
        "height": 360,
        "detections": [{"label": "person", "score": 0.9, "box_xyxy": [10, 20, 90, 200]}] * 3,
    }
).encode()
_METHODS = ("GET", "POST", "DELETE", "PATCH", "OPTIONS", "HEAD", "PUT", "TRACE", "BREW", "get", "")
_TYPES = (
    "application/sdp",
    "application/trickle-ice-sdpfrag",
    "application/json",
    "text/plain; charset=x-none",
    "multipart/form-data",
    "/",
)
_HEADERS = (
    "Origin: https://evil.example",
    "Origin: null",
    "Range: bytes=-1",
    "Range: bytes=5-2,0-0,1-",
    "If-Match: *",
    "Accept: application/xml",
    "Expect: 100-continue",
    "Expect: the-unexpected",
    "Content-Encoding: gzip",
    "Content-Encoding: br",
    "Transfer-Encoding: gzip",
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13",
    "Access-Control-Request-Method: DELETE",
    "Authorization: Basic dTpw",
    "Authorization: Bearer",
    "Cookie: a=" + "b" * 3000,
    "X-Long: " + "x" * 9000,
    "Content-Length: -1",
    "Content-Length: 99999999999",
    "Host:",
    "Host: [::1",
    ": no name",
)


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    closed: int = 0  # without an answer, as a request that is no HTTP deserves
    failures: list[str] = field(default_factory=list)  # what must not be
    slowest_s: float = 0.0


class Fuzzer:
    """Draws and sends. ``recording`` is the path of one that exists, for the routes behind it."""

    def __init__(self, url: str, seed: int, *, token: str = "", recording: str = "") -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._random = random.Random(seed)
        self._token = token
        self._recording = recording
        self._sessions: list[str] = []
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.outcome = Outcome()

    async def run(self, count: int) -> Outcome:
        """Send ``count`` requests one after the other, then end the sessions that came of them."""
        for _ in range(count):
            await self._one(self._request())
            if len(self._sessions) > 3:
                await self._end(self._sessions.pop(0))
        for session in self._sessions:
            await self._end(session)
        self._close()
        return self.outcome

    async def _end(self, session: str) -> None:
        head = f"DELETE {session} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        await self._one(head.encode())

    def _request(self) -> bytes:
        draw = self._random
        path, method, kind, body = self._target()
        headers = [f"Host: {self._address[0]}"]
        if self._token and draw.random() < 0.9:
            headers.append(f"Authorization: Bearer {self._token}")
        if body or draw.random() < 0.2:
            headers.append(f"Content-Type: {kind if draw.random() < 0.8 else draw.choice(_TYPES)}")
            headers.append(f"Content-Length: {len(body)}")
        headers += draw.sample(_HEADERS, draw.choice((0, 0, 0, 0, 1, 1, 2)))
        if draw.random() < 0.2:
            method = draw.choice(_METHODS)
        request = f"{method} {path} HTTP/1.1\r\n".encode("latin-1", "replace")
        request += "\r\n".join(headers).encode("latin-1") + b"\r\n\r\n" + body
        if draw.random() < 0.03:
            request = self._damaged(request)
        return request

    def _target(self) -> tuple[str, str, str, bytes]:
        """Path, method, content type and body that belong together."""
        draw = self._random
        session = draw.choice(self._sessions) if self._sessions else "/whep/session/" + "a" * 32
        chosen = draw.random()
        if chosen < 0.1:
            offer = _OFFER if draw.random() < 0.1 else self._damaged_lines(_OFFER)
            if draw.random() < 0.5:
                return "/whip", "POST", _TYPES[0], offer.replace(b"a=recvonly", b"a=sendonly")
            return "/whep" + draw.choice(("", "?layer=sealed", self._query())), "POST", _TYPES[0], offer
        if chosen < 0.25:
            return session, "PATCH", _TYPES[1], self._damaged_lines(_FRAGMENT)
        if chosen < 0.45:
            return "/api/v1/detections", "POST", _TYPES[2], self._damaged(_DETECTIONS)
        if chosen < 0.47:
            path = draw.choice(("/whep", "/whip", session, "/api/v1/detections"))
            return path, "POST", draw.choice(_TYPES), bytes(draw.choice((65_536, 65_537, 200_000)))
        return self._path(session), "GET", draw.choice(_TYPES), b""

    def _path(self, session: str) -> str:
        draw = self._random
        known = (
            *("/", "/app.js", "/live.js", "/style.css", "/healthz", "/readyz", "/metrics", "/whep", "/whip"),
            *("/api/v1/state", "/api/v1/events", "/api/v1/access", "/api/v1/recordings", session),
            *(self._recording + end for end in ("", "/index", "/head", "/0", "/1", "/99999")),
        )
        path = draw.choice(known)
        chosen = draw.random()
        if chosen < 0.5:
            return path + (self._query() if draw.random() < 0.5 else "")
        if chosen < 0.8:
            place = draw.randrange(len(path) + 1)
            junk = draw.choice(
                ("%00", "%2e%2e%2f", "..", "//", "%", "%zz", "\x7f", "é", "'", '"', "\\", " ", "%c3%28")
            )
            return path[:place] + junk + path[place + draw.randrange(3) :]
        if chosen < 0.9:
            return path + "/" + "a" * draw.choice((10, 1000, 9000))
        return "".join(chr(draw.randrange(33, 256)) for _ in range(draw.randrange(1, 40)))

    def _query(self) -> str:
        draw = self._random
        name = draw.choice(("layer", "rendition", "after", "day", "x", "%00", ""))
        value = draw.choice(
            ("", "-1", "1e999", "9" * 40, "2026-13-41", "%ff", "a" * 500, "sub", "\u00e9", "0")
        )
        return f"?{name}={value}" * draw.choice((1, 1, 3))

    def _damaged(self, data: bytes) -> bytes:
        draw = self._random
        changed = bytearray(data)
        for _ in range(draw.choice((0, 1, 1, 3, 10))):
            place = draw.randrange(len(changed) + 1)
            way = draw.randrange(4)
            if way == 0:
                changed[place : place + 1] = bytes([draw.randrange(256)])
            elif way == 1:
                del changed[place : place + draw.randrange(1, 30)]
            elif way == 2:
                changed[place:place] = draw.choice(
                    (b"1e400", b"-0", b"null", b"[" * 3000, b"\xff\xfe", b'"', b"\x00", b"9" * 400, b"{}")
                )
            else:
                changed += changed[place : place + 200]
        return bytes(changed)

    def _damaged_lines(self, data: bytes) -> bytes:
        draw = self._random
        lines = data.split(b"\r\n")
        for _ in range(draw.randrange(1, 4)):
            place, other = draw.randrange(len(lines)), draw.randrange(len(lines))
            way = draw.randrange(5)
            if way == 0 and len(lines) > 1:
                del lines[place]
            elif way == 1:
                lines[place], lines[other] = lines[other], lines[place]
            elif way == 2:
                lines.insert(place, lines[other])
            elif way == 3:
                lines[place] = re.sub(
                    rb"\d+", lambda _: draw.choice((b"0", b"-1", b"4294967296", b"9" * 30, b"")), lines[place]
                )
            else:
                lines[place] = self._damaged(lines[place])
        return b"\r\n".join(lines)

    async def _one(self, request: bytes) -> None:
        outcome = self.outcome
        outcome.requests += 1
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_S):
                status, location, body = await self._exchange(request)
        except TimeoutError:
            # Who announces more than he sends is waited for; an end of his sending must end it.
            if not await self._ends():
                outcome.failures.append(f"no answer: {request[:300]!r}")
            self._close()
            return
        except (OSError, EOFError, ValueError):
            outcome.closed += 1
            self._close()
            return
        outcome.slowest_s = max(outcome.slowest_s, time.monotonic() - began_s)
        outcome.statuses[status] += 1
        if status == 201 and location:
            self._sessions.append(location)
        if status >= 500 and not (status == 503 and b"too-many-viewers" in body):
            outcome.failures.append(f"{status} {body[:200]!r}: {request[:300]!r}")

    async def _exchange(self, request: bytes) -> tuple[int, str, bytes]:
        if self._stream is None:
            self._stream = await asyncio.open_connection(*self._address)
        reader, writer = self._stream
        writer.write(request)
        head = await self._head(reader)
        if head.startswith("HTTP/1.1 100"):
            head = await self._head(reader)
        status = int(head.split(" ", 2)[1])
        length = re.search(r"(?i)\r\ncontent-length: (\d+)", head)
        bodiless = status in (204, 304) or request.startswith(b"HEAD")
        body = b""
        if length is not None and not bodiless:
            body = await reader.readexactly(min(int(length[1]), MAX_BODY_BYTES))
        endless = length is None and not bodiless  # a stream of events, or a file in chunks
        if endless or status >= 400 or "connection: close" in head.lower() or self._random.random() < 0.02:
            self._close()  # what is left of a request that was refused would be the next one
        location = re.search(r"(?i)\r\nlocation: (\S+)", head)
        return status, location[1] if location else "", body

    async def _head(self, reader: asyncio.StreamReader) -> str:
        return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")

    async def _ends(self) -> bool:
        """Whether the server ends a connection on which nothing more will come."""
        if self._stream is None:
            return True
        reader, writer = self._stream
        with suppress(OSError):
            writer.write_eof()
        try:
            async with asyncio.timeout(ANSWER_S):
                while await reader.read(65_536):
                    pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def _close(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
        self._stream = None
