"""The protocol over HTTP/1.1 with binary tensors, bounded in every direction."""

from __future__ import annotations

import os
import ssl
from urllib.parse import quote

import aiohttp

from analytics.oip import rest
from analytics.oip.messages import InferRequest, InferResponse, Limits, ModelMetadata
from analytics.pool.channel import BOX_LIMITS, reading
from analytics.pool.transport import Overloaded
from base.errors import LimitExceeded, Malformed, PeerError

CONNECT_S = 3.0
MAX_CONNECTIONS = 32  # to one worker: tiles of several cameras on their way at once
_BUSY = frozenset({408, 429, 503, 504})


class RestChannel:
    """See Channel. No redirects, no compression, no proxies: a worker answers itself or not at all."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits = BOX_LIMITS,
    ) -> None:
        """Nothing is connected yet; the first call does. ``limits`` are those of answers."""
        self._limits = limits
        self._base = base_url.rstrip("/") + "/v2"
        self._headers = {"Accept-Encoding": "identity"}  # Triton compresses whenever it may
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def is_ready(self) -> bool:
        """See Channel."""
        status, _, _ = await self._exchange("GET", "/health/ready")
        return status == 200

    async def metadata(self, model: str) -> ModelMetadata:
        """See Channel."""
        status, _, body = await self._exchange("GET", f"/models/{quote(model, safe='')}")
        _check(status)
        with reading():
            return rest.parse_model_metadata(body, self._limits)

    async def infer(self, request: InferRequest) -> InferResponse:
        """See Channel."""
        data, json_length = rest.infer_request_body(request)
        headers = {"Content-Type": "application/octet-stream" if json_length else "application/json"}
        if json_length is not None:
            headers[rest.HEADER_LENGTH] = str(json_length)
        path = f"/models/{quote(request.model, safe='')}/infer"
        status, length, body = await self._exchange("POST", path, data, headers)
        _check(status)
        with reading():
            return rest.parse_infer_response(body, length, self._limits)

    async def close(self) -> None:
        """See Channel."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(
        self, method: str, path: str, data: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, int | None, bytes]:
        """Status, length of the JSON part, body."""
        session = self._session or self._open()
        try:
            async with session.request(
                method, self._base + path, data=data, headers=headers, allow_redirects=False
            ) as response:
                body = await _bounded(response, self._limits.body_bytes)
                length = _json_length(response.headers.get(rest.HEADER_LENGTH))
                return response.status, length, body
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            message = f"cannot be reached: {_reason(error)}"
            raise PeerError(message) from error

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=MAX_CONNECTIONS, ssl=self._tls if self._tls is not None else True, keepalive_timeout=60
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self._session


def _reason(error: Exception) -> str:
    """For people, and of nothing that the worker sent."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        said = getattr(error.certificate_error, "verify_message", "")  # OpenSSL's own words
        return f"its certificate is not trusted: {said or 'see ca_file'}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "nobody knows its name"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "no TLS there, or it wants a certificate of ours"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection (is it https?)"
    return type(error).__name__


def _check(status: int) -> None:
    if status == 200:
        return
    if status in _BUSY:
        message = f"has no time now: HTTP status {status}"
        raise Overloaded(message)
    reason = {401: "refuses our token", 403: "refuses us", 404: "does not have the model"}.get(
        status, "failed"
    )
    message = f"{reason}: HTTP status {status}"
    raise PeerError(message)


async def _bounded(response: aiohttp.ClientResponse, most: int) -> bytes:
    parts, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most:
            response.close()
            message = f"answer: longer than {most} bytes"
            raise LimitExceeded(message)
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _json_length(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        message = f"{rest.HEADER_LENGTH}: expected a number"
        raise Malformed(message)
    return int(text)
