"""What WHIP and WHEP resources have in common: an endpoint that makes sessions, and the sessions.

    GET     ENDPOINT            204          OPTIONS 200 with Accept-Post, CORS
    PATCH   ENDPOINT/session/ID application/trickle-ice-sdpfrag -> 204; an ICE restart -> 422
    DELETE  ENDPOINT/session/ID 200
    OPTIONS, GET                as above

Authentication, rate limits, CORS headers and request limits are ``camera.http``'s.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from aiohttp import web

from base.errors import FormatError, LimitExceeded
from camera.problems import problem
from camera.webrtc.ice import IceServer
from camera.webrtc.offer import MAX_SDP_BYTES, Fragment, Offer, parse_fragment

SDP = "application/sdp"
FRAGMENT = "application/trickle-ice-sdpfrag"
BODY_TIMEOUT_S = 10.0
MAX_UNDELETED = 1024


class Session(Protocol):
    """One session of either kind."""

    @property
    def session_id(self) -> str:
        """Unguessable (RFC 4086)."""

    def is_restart(self, fragment: Fragment) -> bool:
        """Whether the fragment asks for an ICE restart."""

    async def add_candidates(self, fragment: Fragment) -> int:
        """Add trickled candidates; returns how many could be used."""


class SdpResource(ABC):
    """Routes of one endpoint and its sessions."""

    def __init__(self, endpoint: str, ice_servers: Sequence[IceServer] = ()) -> None:
        self.endpoint = endpoint
        self._session_path = f"{endpoint}/session/"
        self._ice_servers = tuple(ice_servers)
        # Clients close their side first and DELETE then, when we have noticed already: that is no error.
        self._undeleted: OrderedDict[str, bool] = OrderedDict()

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the routes into an application's router."""
        router.add_post(self.endpoint, self._post)
        router.add_get(self.endpoint, self._get, allow_head=False)
        router.add_head(self.endpoint, self._head)
        router.add_options(self.endpoint, self._options)
        session = self._session_path + "{session_id}"
        router.add_patch(session, self._patch)
        router.add_delete(session, self._delete)
        router.add_get(session, self._get)
        router.add_options(session, self._options)

    @abstractmethod
    async def _post(self, request: web.Request) -> web.Response:
        """Open a session."""

    @abstractmethod
    def _find(self, session_id: str) -> Session | None:
        """The session of that id."""

    @abstractmethod
    def _discard(self, session: Session) -> None:
        """End a session at once, its closing in the background."""

    def _created(self, session: Session, offer: Offer, answer: str) -> web.Response:
        """201 with everything that a client needs."""
        self._undeleted[session.session_id] = True
        while len(self._undeleted) > MAX_UNDELETED:
            self._undeleted.popitem(last=False)
        response = web.Response(
            status=201,
            body=answer.encode(),
            content_type=SDP,
            headers={
                "Location": self._session_path + session.session_id,
                "ETag": _etag(offer),
                "Accept-Patch": FRAGMENT,
                "Cache-Control": "no-store",
            },
        )
        self._add_links(response)
        return response

    def _add_links(self, response: web.Response) -> None:
        for server in self._ice_servers:
            response.headers.add("Link", server.link)

    async def _patch(self, request: web.Request) -> web.Response:
        session = self._session(request)
        if session is None:
            return _unknown_session()
        if request.content_type != FRAGMENT:
            return problem(
                415,
                f"expected Content-Type {FRAGMENT}",
                code="content-type",
                headers={"Accept-Patch": FRAGMENT},
            )
        try:
            fragment = parse_fragment(await read_body(request))
        except FormatError as error:
            return format_problem(error)
        if session.is_restart(fragment):
            return problem(
                422, "ICE restart is not supported", hint="Open a new session instead.", code="no-restart"
            )
        await session.add_candidates(fragment)
        return web.Response(status=204)

    async def _delete(self, request: web.Request) -> web.Response:
        session = self._session(request)
        is_ours = self._undeleted.pop(request.match_info["session_id"], False)
        if session is not None:
            self._discard(session)
        elif not is_ours:
            return _unknown_session()
        return web.Response(status=200)

    async def _get(self, request: web.Request) -> web.Response:
        if "session_id" in request.match_info and self._session(request) is None:
            return _unknown_session()
        return web.Response(status=204)

    async def _head(self, _request: web.Request) -> web.Response:
        return web.Response(status=200, content_type=SDP)

    async def _options(self, request: web.Request) -> web.Response:
        is_session = "session_id" in request.match_info
        accept = {"Accept-Patch": FRAGMENT} if is_session else {"Accept-Post": SDP}
        return web.Response(status=200, headers=accept)

    def _session(self, request: web.Request) -> Session | None:
        return self._find(request.match_info["session_id"])


def content_type_problem(request: web.Request) -> web.Response | None:
    """415 unless the body is SDP."""
    if request.content_type == SDP:
        return None
    return problem(415, f"expected Content-Type {SDP}", code="content-type", headers={"Accept-Post": SDP})


def format_problem(error: FormatError) -> web.Response:
    """400, or 413 for what is too large."""
    status = 413 if isinstance(error, LimitExceeded) else 400
    return problem(status, str(error), code="bad-description")


async def read_body(request: web.Request) -> bytes:
    """The body, at most 64 KiB and within 10 s.

    Raises:
        LimitExceeded: the body is larger.
        web.HTTPRequestTimeout: it did not arrive in time.
    """
    if (request.content_length or 0) > MAX_SDP_BYTES:
        message = f"description: {request.content_length} bytes, limit is {MAX_SDP_BYTES}"
        raise LimitExceeded(message)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        message = f"description: limit is {MAX_SDP_BYTES} bytes"
        raise LimitExceeded(message) from error
    except TimeoutError as error:
        raise web.HTTPRequestTimeout from error


def _unknown_session() -> web.Response:
    return problem(404, "no such session", hint="It has ended. Open a new one.", code="no-session")


def _etag(offer: Offer) -> str:
    """Identifies the ICE session (RFC 9725, 4.3.1); not required on PATCH, as common clients omit it."""
    return '"' + hashlib.sha256(offer.ufrag.encode()).hexdigest()[:16] + '"'
