"""The WHEP resource (draft-ietf-wish-whep-03) on top of ``Viewers``: HTTP in, HTTP out.

    POST    /whep               application/sdp offer -> 201, answer, Location of the session
    GET     /whep               204          HEAD  200, Content-Type application/sdp (discovery)
    OPTIONS /whep               200, Accept-Post, CORS
    PATCH   /whep/session/ID    application/trickle-ice-sdpfrag -> 204; an ICE restart -> 422
    DELETE  /whep/session/ID    200
    OPTIONS, GET, HEAD          as above

``?layer=sealed`` on the POST leaves the sealed layer's SEI in the stream, for a recorder; the default is the
protected layer alone. Authentication, rate limits, CORS headers and request limits are ``camera.http``'s.
"""

from __future__ import annotations

import asyncio
import hashlib

from aiohttp import web

from base.errors import FormatError, LimitExceeded, PeerError
from camera.problems import problem
from camera.webrtc.offer import MAX_SDP_BYTES, Offer, parse_fragment, parse_offer
from camera.webrtc.viewer import NoCommonCodecError, Viewer
from camera.webrtc.viewers import TooManyViewersError, Viewers

ENDPOINT = "/whep"
SESSION = "/whep/session/"
SDP = "application/sdp"
FRAGMENT = "application/trickle-ice-sdpfrag"
BODY_TIMEOUT_S = 10.0
LAYERS = ("protected", "sealed")

H264_HINT = (
    "The stream is H.264. Chromium, Chrome, Edge and Safari play it; Firefox does once its OpenH264 plugin is"
    " installed and enabled (about:addons, Plugins)."
)


class WhepEndpoint:
    """Routes of the WHEP resource and its sessions."""

    def __init__(self, viewers: Viewers) -> None:
        self._viewers = viewers

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the routes into an application's router."""
        router.add_post(ENDPOINT, self._post)
        router.add_get(ENDPOINT, self._get, allow_head=False)
        router.add_head(ENDPOINT, self._head)
        router.add_options(ENDPOINT, self._options)
        session = SESSION + "{session_id}"
        router.add_patch(session, self._patch)
        router.add_delete(session, self._delete)
        router.add_get(session, self._get)
        router.add_options(session, self._options)

    async def _post(self, request: web.Request) -> web.Response:
        layer = request.query.get("layer", "protected")
        if layer not in LAYERS:
            return problem(400, "layer: expected protected or sealed", code="bad-layer")
        if request.content_type != SDP:
            return problem(
                415, f"expected Content-Type {SDP}", code="content-type", headers={"Accept-Post": SDP}
            )
        if not self._viewers.is_live:
            return problem(
                409,
                "the camera is not live",
                hint="Its source gives no pictures at the moment. Try again in a few seconds.",
                code="not-live",
                headers={"Retry-After": "3"},
            )
        try:
            offer = parse_offer(await read_body(request))
        except FormatError as error:
            return _format_problem(error)
        refusal = _refuse(offer)
        return refusal or await self._open(offer, keep_sealed=layer == "sealed")

    async def _open(self, offer: Offer, *, keep_sealed: bool) -> web.Response:
        try:
            viewer, answer = await self._viewers.open(offer, keep_sealed=keep_sealed)
        except TooManyViewersError as error:
            return problem(
                503,
                str(error),
                hint="Close another viewer, or raise the limit of viewers in the camera's configuration.",
                code="too-many-viewers",
                headers={"Retry-After": "10"},
            )
        except NoCommonCodecError as error:
            return problem(406, str(error), hint=H264_HINT, code="no-h264")
        except PeerError as error:
            return problem(400, str(error), code="bad-offer")
        return web.Response(
            status=201,
            body=answer.encode(),
            content_type=SDP,
            headers={
                "Location": SESSION + viewer.session_id,
                "ETag": _etag(offer),
                "Accept-Patch": FRAGMENT,
                "Cache-Control": "no-store",
            },
        )

    async def _patch(self, request: web.Request) -> web.Response:
        viewer = self._find(request)
        if viewer is None:
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
            return _format_problem(error)
        if viewer.is_restart(fragment):
            return problem(
                422, "ICE restart is not supported", hint="Open a new session instead.", code="no-restart"
            )
        await viewer.add_candidates(fragment)
        return web.Response(status=204)

    async def _delete(self, request: web.Request) -> web.Response:
        viewer = self._find(request)
        if viewer is None:
            return _unknown_session()
        self._viewers.discard(viewer)
        return web.Response(status=200)

    async def _get(self, request: web.Request) -> web.Response:
        if "session_id" in request.match_info and self._find(request) is None:
            return _unknown_session()
        return web.Response(status=204)

    async def _head(self, _request: web.Request) -> web.Response:
        return web.Response(status=200, content_type=SDP)

    async def _options(self, request: web.Request) -> web.Response:
        accept = {"Accept-Patch": FRAGMENT} if "session_id" in request.match_info else {"Accept-Post": SDP}
        return web.Response(status=200, headers=accept)

    def _find(self, request: web.Request) -> Viewer | None:
        return self._viewers.find(request.match_info["session_id"])


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


def _refuse(offer: Offer) -> web.Response | None:
    """A problem when the offer is well formed and still cannot be served."""
    if any(media.kind not in ("audio", "video") for media in offer.media):
        return problem(422, "expected audio and video sections only", code="unsupported-media")
    if len(offer.video) != 1:
        return problem(422, f"expected one video section, got {len(offer.video)}", code="no-video")
    video = offer.video[0]
    if video.direction not in ("recvonly", "sendrecv"):
        return problem(422, f"expected video to be recvonly, got {video.direction}", code="direction")
    if not video.has_h264:
        return problem(406, "the offer has no H.264 codec", hint=H264_HINT, code="no-h264")
    return None


def _format_problem(error: FormatError) -> web.Response:
    status = 413 if isinstance(error, LimitExceeded) else 400
    return problem(status, str(error), code="bad-description")


def _unknown_session() -> web.Response:
    return problem(404, "no such session", hint="It has ended. Open a new one.", code="no-session")


def _etag(offer: Offer) -> str:
    """Identifies the ICE session (RFC 9725, 4.3.1); not required on PATCH, as common clients omit it."""
    return '"' + hashlib.sha256(offer.ufrag.encode()).hexdigest()[:16] + '"'
