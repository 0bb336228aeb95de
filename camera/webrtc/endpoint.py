"""The WHEP resource (draft-ietf-wish-whep-03) on top of ``Viewers``: HTTP in, HTTP out.

    POST    /whep               application/sdp offer -> 201, answer, Location of the session
    HEAD    /whep               200, Content-Type application/sdp (discovery)

and what ``camera.webrtc.resource`` lists. ``?layer=sealed`` on the POST leaves the sealed layer's SEI in the
stream, for a recorder; the default is the protected layer alone. ``?rendition=main`` or ``sub`` keeps a
viewer at one size; ``auto`` (the default) follows loss and round trips.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from base.errors import FormatError, PeerError
from camera.problems import problem
from camera.webrtc.ice import IceServer
from camera.webrtc.offer import Offer, parse_offer
from camera.webrtc.resource import (
    FRAGMENT,
    SDP,
    SdpResource,
    Session,
    content_type_problem,
    format_problem,
    read_body,
)
from camera.webrtc.viewer import NoCommonCodecError, Viewer, Wish
from camera.webrtc.viewers import TooManyViewersError, Viewers

__all__ = ["ENDPOINT", "FRAGMENT", "SDP", "SESSION", "WhepEndpoint", "read_body"]

ENDPOINT = "/whep"
SESSION = "/whep/session/"
LAYERS = ("protected", "sealed")
RENDITIONS = ("auto", "main", "sub")

H264_HINT = (
    "The stream is H.264. Chromium, Chrome, Edge and Safari play it; Firefox does once its OpenH264 plugin is"
    " installed and enabled (about:addons, Plugins)."
)


class WhepEndpoint(SdpResource):
    """Routes of the WHEP resource and its sessions."""

    def __init__(self, viewers: Viewers, ice_servers: Sequence[IceServer] = ()) -> None:
        super().__init__(ENDPOINT, ice_servers)
        self._viewers = viewers

    async def _post(self, request: web.Request) -> web.Response:
        layer = request.query.get("layer", "protected")
        rendition = request.query.get("rendition", "auto")
        if layer not in LAYERS:
            return problem(400, "layer: expected protected or sealed", code="bad-layer")
        if rendition not in RENDITIONS:
            return problem(400, "rendition: expected auto, main or sub", code="bad-rendition")
        if (refusal := content_type_problem(request)) is not None:
            return refusal
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
            return format_problem(error)
        wish = Wish(keep_sealed=layer == "sealed", rendition=rendition)
        return _refuse(offer) or await self._open(offer, wish)

    async def _open(self, offer: Offer, wish: Wish) -> web.Response:
        try:
            viewer, answer = await self._viewers.open(offer, wish)
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
        return self._created(viewer, offer, answer)

    def _find(self, session_id: str) -> Viewer | None:
        return self._viewers.find(session_id)

    def _discard(self, session: Session) -> None:
        viewer = self._viewers.find(session.session_id)
        if viewer is not None:
            self._viewers.discard(viewer)


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
