"""The HTTP side of WHIP and WHEP for a client: an offer goes out, an answer and a session's URL come back.

Sources: RFC 9725, draft-ietf-wish-whep-03. Redirects 307 and 308 are followed with the offer (RFC 9725,
4.5); the token goes to the endpoint's own host only.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

import aiohttp

from analytics.urls import shown_url
from base.errors import PeerError

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 64 * 1024
HTTP_TIMEOUT_S = 10.0
_MAX_REDIRECTS = 5
# 408, 409, 425, 429 and 5xx pass by themselves; every other refusal would be repeated for ever.
_PASSING = frozenset({408, 409, 425, 429})


class RefusedError(PeerError):
    """The server answered, and did not open a session."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_final(self) -> bool:
        """Whether asking again would get the same answer (a wrong token, a wrong path, no H.264)."""
        return self.status < 500 and self.status not in _PASSING


class SdpExchange:
    """One client's HTTP session with one endpoint; ``close`` ends the session at the server too."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http: aiohttp.ClientSession | None = None
        self._session_url: str | None = None

    async def post(self, offer: str, parameters: Mapping[str, str] | None = None) -> str:
        """Send the offer and return the answer.

        Raises:
            RefusedError: the server opens no session.
            PeerError: it does not answer.
        """
        if self._http is None:
            timeout = aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)
            self._http = aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        url = self._url
        try:
            for _ in range(_MAX_REDIRECTS):
                status, body, location, final = await self._post_once(self._http, url, offer, parameters)
                if status not in (307, 308) or not location:
                    break
                url = urljoin(final, location)
                if _origin(url) != _origin(final):
                    raise RefusedError(f"{shown_url(self._url)}: redirects to another host", status)
        except (aiohttp.ClientError, TimeoutError) as error:
            message = f"{shown_url(self._url)}: no answer ({type(error).__name__})"
            raise PeerError(message) from error
        if status != 201:
            raise RefusedError(f"{shown_url(self._url)}: {_reason(status, body)}", status)
        self._session_url = _session_url(final, location)
        return body.decode("utf-8", "replace")

    async def close(self) -> None:
        """DELETE the session, then free the sockets; harmless when repeated."""
        http, self._http = self._http, None
        if http is None:
            return
        if self._session_url is not None:
            try:
                async with http.delete(self._session_url, timeout=aiohttp.ClientTimeout(total=2.0)):
                    pass
            except (aiohttp.ClientError, TimeoutError) as error:
                logger.debug("DELETE: %s", type(error).__name__)
        await http.close()

    async def _post_once(
        self, http: aiohttp.ClientSession, url: str, offer: str, parameters: Mapping[str, str] | None
    ) -> tuple[int, bytes, str, str]:
        """Status, body, Location and URL of one request."""
        async with http.post(
            url,
            data=offer.encode(),
            params=parameters or None,
            headers={"Content-Type": "application/sdp"},
            allow_redirects=False,
        ) as response:
            body = await _read_bounded(response.content)
            return response.status, body, response.headers.get("Location", ""), str(response.url)


async def _read_bounded(content: aiohttp.StreamReader) -> bytes:
    body = b""
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            message = f"SDP answer: longer than {MAX_ANSWER_BYTES} bytes"
            raise PeerError(message)
    return body


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _session_url(endpoint: str, location: str) -> str | None:
    """The session's URL if it lives on the endpoint's own host: the token goes nowhere else."""
    url = urljoin(endpoint, location)
    return url if location and _origin(url) == _origin(endpoint) else None


def _reason(status: int, body: bytes) -> str:
    """One line out of problem details, bounded; the status alone when there are none."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or not isinstance(problem.get("detail"), str):
        return f"HTTP status {status}"
    hint = problem.get("hint")
    return f"{problem['detail'][:200]} (HTTP {status})" + (f". {hint[:200]}" if isinstance(hint, str) else "")
