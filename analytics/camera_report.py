"""Sends a detector's results to the camera that it watches: the page draws them, events come of them.

On a thread of its own, at most five pictures a second, always the newest: a camera that is away or slow
costs results, never the detector's time.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from base.errors import UsageError

logger = logging.getLogger(__name__)

PATH = "/api/v1/detections"
EVERY_S = 0.2  # the camera takes ten changes per second from one address
ANSWER_S = 5.0
LONGEST_DELAY_S = 30.0


class CameraReport:
    """``with CameraReport(whep_url, token) as report: report.take(result)``."""

    def __init__(self, whep_url: str, token: str | None = None) -> None:
        """Take the WHEP URL of the camera.

        Raises:
            UsageError: not an http(s) URL that ends in /whep.
        """
        parts = urlsplit(whep_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not parts.path.endswith("/whep"):
            message = "report: expected the camera's WHEP URL, http(s)://HOST[:PORT]/whep"
            raise UsageError(message)
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.removesuffix("/whep") + PATH
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._changed = threading.Condition()
        self._newest: bytes | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="veilcam-report", daemon=True)
        self._is_failing = False
        self.num_sent = 0

    def take(self, result: Mapping[str, object]) -> None:
        """Send one picture's result (``FrameResult``) soon, unless a newer one comes first. Never waits."""
        with self._changed:
            self._newest = json.dumps(result, separators=(",", ":")).encode()
            self._changed.notify()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(ANSWER_S)

    def _run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        delay_s = EVERY_S
        while (body := self._next()) is not None:
            connection = connection or self._connect()
            try:
                self._send(connection, body)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                connection = None
                delay_s = min(max(1.0, 2 * delay_s), LONGEST_DELAY_S)
                self._note(type(error).__name__)
            else:
                delay_s = EVERY_S
            self._stopping.wait(delay_s)
        if connection is not None:
            connection.close()

    def _next(self) -> bytes | None:
        """The newest result; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest is not None or self._stopping.is_set())
            if self._stopping.is_set():
                return None
            body, self._newest = self._newest, None
            return body

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=ANSWER_S)

    def _send(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        connection.request("POST", self._path, body, self._headers)
        response = connection.getresponse()
        response.read()
        if response.status == http.HTTPStatus.NO_CONTENT:
            self.num_sent += 1
            self._is_failing = False
        else:
            self._note(f"answered {response.status}")

    def _note(self, reason: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            logger.warning("report: the camera does not take detections: %s", reason)
