"""The WHIP resource (RFC 9725, the server's side): a camera, a browser or ffmpeg pushes its video to us.

    POST    /whip               application/sdp offer -> 201, answer, Location of the session

and what ``camera.webrtc.resource`` lists. One publisher at a time; a new one takes over, so that one that has
crashed is back at once. H.264 only: units are taken as they were coded, because they are sealed as they are.
Audio that is offered with it is received and thrown away. What is pushed here is clear video: the endpoint
needs a token of its own or the camera's, always (``camera.http``).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence

from aiohttp import web
from aiortc import RTCSessionDescription
from aiortc.exceptions import OperationError
from aiortc.jitterbuffer import JitterFrame

from analytics.encoded_queue import ask_for_key_frame, take_encoded
from base.errors import FormatError, PeerError, VeilError
from camera.problems import problem
from camera.sources.pushed import PushedSource
from camera.webrtc.ice import IceServer, new_peer
from camera.webrtc.offer import Fragment, Offer, parse_offer
from camera.webrtc.resource import (
    SdpResource,
    Session,
    content_type_problem,
    format_problem,
    read_body,
)
from camera.webrtc.sending import h264_capabilities, require_h264
from camera.webrtc.trickle import Trickle

logger = logging.getLogger(__name__)

ENDPOINT = "/whip"
CONNECT_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 10.0
RTP_CLOCK_HZ = 90_000


class IngestSession:
    """One publisher."""

    def __init__(self, source: PushedSource, ingest: WhipIngest, ice_servers: Sequence[IceServer]) -> None:
        self.session_id = secrets.token_urlsafe(24)
        self._source = source
        self._ingest = ingest
        self._trickle: Trickle | None = None
        self._peer = new_peer(ice_servers)
        self._peer.on("connectionstatechange", self._state_changed)
        self._deadline = asyncio.get_running_loop().call_later(CONNECT_TIMEOUT_S, self._give_up)
        self._is_current = False
        self._closing: asyncio.Task[None] | None = None

    async def answer(self, offer: Offer) -> str:
        """Take the offer and return the answer's SDP, with all our candidates.

        Raises:
            NoH264Error: the offer has no profile of H.264 that we take.
            PeerError: it cannot be answered.
        """
        self._trickle = Trickle(offer)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                transceiver = self._peer.addTransceiver("video", direction="recvonly")
                transceiver.setCodecPreferences(h264_capabilities())
                take_encoded(transceiver.receiver, self._arrived)
                await self._peer.setRemoteDescription(RTCSessionDescription(offer.text, "offer"))
                for other in self._peer.getTransceivers():
                    if other is not transceiver:
                        other.direction = "recvonly"
                        take_encoded(other.receiver, lambda _frame: None)
                await self._peer.setLocalDescription(await self._peer.createAnswer())
        except TimeoutError as error:
            message = f"no answer could be made within {ANSWER_TIMEOUT_S:.0f} s"
            raise PeerError(message) from error
        except OperationError as error:
            message = "the offer has no H.264 profile that is taken here"
            raise NoH264Error(message) from error
        except VeilError:
            raise
        except Exception as error:  # aiortc names no error type for a bad offer; it must not become a 500
            message = f"the offer cannot be answered: {type(error).__name__}"
            logger.info("publisher: %s: %s", message, error)
            raise PeerError(message) from error
        require_h264(self._peer.localDescription.sdp, transceiver)
        receiver = transceiver.receiver
        self._is_current = True
        self._source.begin(lambda: ask_for_key_frame(receiver))
        ask_for_key_frame(receiver)
        return self._peer.localDescription.sdp

    def is_restart(self, fragment: Fragment) -> bool:
        """Whether the fragment belongs to other ICE credentials than the offer's."""
        return self._trickle is not None and self._trickle.is_restart(fragment)

    async def add_candidates(self, fragment: Fragment) -> int:
        """Add trickled candidates; returns how many could be used."""
        return await self._trickle.add(self._peer, fragment) if self._trickle is not None else 0

    async def close(self) -> None:
        """End it; safe to call again."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="publisher-close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._deadline.cancel()
        if self._is_current:
            self._is_current = False
            self._source.end("the publisher left")
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._peer.close()
        except TimeoutError:
            logger.warning("publisher: closing took more than %.0f s", CLOSE_TIMEOUT_S)

    def replaced(self) -> None:
        """Another publisher has taken over: what still arrives is thrown away."""
        self._is_current = False

    def _arrived(self, frame: JitterFrame) -> None:
        if self._is_current:
            self._source.put(frame.data, frame.timestamp * 1_000_000 // RTP_CLOCK_HZ)

    def _state_changed(self) -> None:
        state = self._peer.connectionState
        logger.info("publisher: %s", state)
        if state == "connected":
            self._deadline.cancel()
        elif state in {"failed", "closed"}:
            self._ingest.discard(self)

    def _give_up(self) -> None:
        logger.info("publisher: not connected after %.0f s", CONNECT_TIMEOUT_S)
        self._ingest.discard(self)


class NoH264Error(PeerError):
    """The offer has no codec that we take."""


class WhipIngest(SdpResource):
    """Routes of the WHIP resource and its sessions; a part of the camera's server."""

    def __init__(self, source: PushedSource, ice_servers: Sequence[IceServer] = ()) -> None:
        super().__init__(ENDPOINT, ice_servers)
        self._source = source
        self._sessions: dict[str, IngestSession] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def add_to(self, app: web.Application) -> None:
        """Put the routes into the application; sessions end with it."""
        self.add_routes(app.router)
        app.on_shutdown.append(self._shutdown)

    def discard(self, session: IngestSession) -> None:
        """Forget a session at once and close it in the background (an answer to DELETE must not wait)."""
        if self._sessions.pop(session.session_id, None) is None:
            return
        task = asyncio.create_task(session.close(), name="publisher-discard")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End every session and wait until all is given back."""
        for session in list(self._sessions.values()):
            self.discard(session)
        if self._closing:
            await asyncio.gather(*self._closing)

    async def _shutdown(self, _app: web.Application) -> None:
        await self.close()

    async def _post(self, request: web.Request) -> web.Response:
        if (refusal := content_type_problem(request)) is not None:
            return refusal
        try:
            offer = parse_offer(await read_body(request))
        except FormatError as error:
            return format_problem(error)
        return _refuse(offer) or await self._open(offer)

    async def _open(self, offer: Offer) -> web.Response:
        session = IngestSession(self._source, self, self._ice_servers)
        before = list(self._sessions.values())
        self._sessions[session.session_id] = session
        try:
            answer = await session.answer(offer)
        except NoH264Error as error:
            self.discard(session)
            return _no_h264(str(error))
        except PeerError as error:
            self.discard(session)
            return problem(400, str(error), code="bad-offer")
        except BaseException:
            self.discard(session)
            raise
        for other in before:
            other.replaced()
            self.discard(other)
        return self._created(session, offer, answer)

    def _find(self, session_id: str) -> IngestSession | None:
        return self._sessions.get(session_id)

    def _discard(self, session: Session) -> None:
        found = self._sessions.get(session.session_id)
        if found is not None:
            self.discard(found)


def _no_h264(detail: str) -> web.Response:
    hint = "Set the publisher's video codec to H.264, profile baseline or constrained baseline."
    return problem(422, detail, hint=hint, code="no-h264")


def _refuse(offer: Offer) -> web.Response | None:
    """A problem when the offer is well formed and still cannot be taken."""
    if any(media.kind not in ("audio", "video") for media in offer.media):
        return problem(422, "expected audio and video sections only", code="unsupported-media")
    if len(offer.video) != 1 or len(offer.media) > 2:
        return problem(422, "expected one video section and at most one audio section", code="no-video")
    for media in offer.media:
        if media.direction not in ("sendonly", "sendrecv"):
            return problem(
                422, f"expected {media.kind} to be sendonly, got {media.direction}", code="direction"
            )
    if not offer.video[0].has_h264:
        return _no_h264("the offer has no H.264 codec")
    return None
