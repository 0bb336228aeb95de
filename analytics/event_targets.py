"""Targets of events by their address: a JSON Lines file, a webhook, an MQTT broker."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import aiohttp

from analytics.event_outlet import EventTarget
from analytics.events import Event
from base.errors import PeerError, UsageError
from base.version import __version__

REQUEST_S = 10.0
MAX_FILE_BYTES = 64 * 1024 * 1024
RETRIED = (408, 425, 429)  # of the 4xx; the other ones say that the same request will never do


def open_target(address: str, *, token: str | None = None, camera: str = "camera") -> EventTarget:
    """The target that an address names.

    Args:
        address: ``mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT][/PREFIX]``, ``http(s)://...`` (webhook), or the
            path of a file.
        token: bearer token of a webhook, password of a broker.
        camera: name in the topics that belong to the connection itself.

    Raises:
        UsageError: an address that cannot be meant.
        MissingDependency: MQTT without the extra ``mqtt``.
    """
    scheme, separator, _ = address.partition("://")
    if not separator:
        return FileTarget(Path(address))
    if scheme in ("http", "https"):
        return WebhookTarget(address, token)
    if scheme in ("mqtt", "mqtts"):
        from analytics.event_mqtt import MqttOptions, MqttTarget  # noqa: PLC0415  # needs the extra

        return MqttTarget(MqttOptions.parse(address, camera=camera, password=token))
    message = f"events: expected mqtt://, mqtts://, http://, https:// or a file, got {scheme}://"
    raise UsageError(message)


def line(event: Event) -> bytes:
    """One event as a line of JSON Lines."""
    return json.dumps(event.to_json(), separators=(",", ":"), allow_nan=False).encode() + b"\n"


class FileTarget:
    """Appends JSON Lines; at 64 MiB the file becomes ``NAME.1``, replacing an older one."""

    def __init__(self, path: Path, max_bytes: int = MAX_FILE_BYTES) -> None:
        self.name = path.name
        self._path = path
        self._max_bytes = max_bytes
        self._file: BinaryIO | None = None

    async def open(self) -> None:
        """Open the file at its end.

        Raises:
            PeerError: it cannot be written.
        """
        try:
            self._file = self._opened()
        except OSError as error:
            raise self._failed(error) from error

    async def send(self, event: Event) -> None:
        """Append one line. The file is small and local: a thread would cost more than the write.

        Raises:
            PeerError: it cannot be written (a full disk).
        """
        try:
            if self._file is None or self._file.tell() >= self._max_bytes:
                await self.close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._file = self._opened()
            self._file.write(line(event))
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from error

    async def idle(self) -> None:
        """Nothing to look after."""

    async def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # a full disk: the event that failed is written again
                file.close()

    def _opened(self) -> BinaryIO:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.fdopen(os.open(self._path, flags, 0o640), "ab")
        file.seek(0, os.SEEK_END)
        return file

    def _failed(self, error: OSError) -> PeerError:
        return PeerError(f"{self._path}: {error.strerror}")


class WebhookTarget:
    """One POST with one JSON object per event; redirects are not followed.

    2xx is success. 408, 425, 429, 5xx and no answer within 10 s are tried again. Another status means that
    the receiver will not take this event, which is then let go and counted.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        """Take the receiver's address and its bearer token.

        Raises:
            UsageError: an address without a host, or with a user name (use the token).
        """
        parts = urlsplit(url)
        if not parts.hostname or parts.username is not None:
            message = (
                "webhook: expected http(s)://HOST/PATH; a token goes into its file, not into the address"
            )
            raise UsageError(message)
        self.name = f"{parts.scheme}://{parts.hostname}"  # the path may be a secret of the receiver's
        self._url = url
        self._headers = {"Content-Type": "application/json", "User-Agent": f"veilcam/{__version__}"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._session: aiohttp.ClientSession | None = None
        self.num_refused = 0

    async def open(self) -> None:
        """Prepare the connection; it is made by the first event."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S))

    async def send(self, event: Event) -> None:
        """Post one event.

        Raises:
            PeerError: it is worth another try.
        """
        if self._session is None:
            await self.open()
        assert self._session is not None  # noqa: S101  # just opened; for the type checker
        try:
            async with self._session.post(
                self._url, data=line(event), headers=self._headers, allow_redirects=False
            ) as response:
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            message = f"{self.name}: no answer ({type(error).__name__})"
            raise PeerError(message) from error
        if 200 <= status < 300:
            return
        if status >= 500 or status in RETRIED:
            message = f"{self.name}: answered {status}"
            raise PeerError(message)
        self.num_refused += 1

    async def idle(self) -> None:
        """Nothing to look after: each event is a request of its own."""

    async def close(self) -> None:
        """Close the connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
