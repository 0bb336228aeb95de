"""One WHEP session: a peer connection that sends one PacketTrack and nothing else."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpSender, RTCRtpTransceiver, RTCSessionDescription
from aiortc import sdp as aiortc_sdp
from aiortc.exceptions import OperationError

from analytics.loopback_ice import allow_loopback
from base.errors import PeerError
from camera.webrtc.offer import MAX_CANDIDATES, Fragment, Offer
from camera.webrtc.track import PacketTrack

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 10.0
H264 = "video/H264"


class NoCommonCodecError(PeerError):
    """The offer has no codec that the stream can be sent with."""


@dataclass(frozen=True, slots=True)
class ViewerStats:
    """One session as the state page shows it. ``number`` counts sessions and is no secret."""

    number: int
    state: str
    sealed: bool
    age_s: float
    units: int
    bytes: int
    skips: int
    key_frame_requests: int


class Viewer:
    """Guards one session's life: answered once, connected within 20 s, closed once with all it holds."""

    def __init__(
        self,
        session_id: str,
        number: int,
        track: PacketTrack,
        *,
        keep_sealed: bool,
        request_key_frame: Callable[[], None],
        on_gone: Callable[[Viewer], None],
    ) -> None:
        self.session_id = session_id
        self.number = number
        self._track = track
        self._keep_sealed = keep_sealed
        self._request_key_frame = request_key_frame
        self._on_gone = on_gone
        self._opened_s = time.monotonic()
        self._num_key_requests = 0
        self._ufrag = ""
        self._bundle_mid = ""
        self._num_candidates = 0
        allow_loopback()
        # iceServers=[]: the default would ask a public STUN server.
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._peer.on("connectionstatechange", self._state_changed)
        track.on("ended", lambda: on_gone(self))
        self._deadline = asyncio.get_running_loop().call_later(CONNECT_TIMEOUT_S, self._give_up)
        self._closing: asyncio.Task[None] | None = None

    async def answer(self, offer: Offer) -> str:
        """Take the offer and return the answer's SDP, with all our candidates.

        Raises:
            PeerError: the offer cannot be answered, or H.264 was not what came out of the negotiation.
        """
        self._ufrag = offer.ufrag
        self._bundle_mid = offer.bundle_mid
        # Before setRemoteDescription: a transceiver that aiortc creates itself negotiates VP8 first, and our
        # H.264 bytes would then be packetised as VP8: connected, and never a picture.
        transceiver = self._peer.addTransceiver(self._track, direction="sendonly")
        transceiver.setCodecPreferences(_h264_capabilities())
        _hook_key_frame_requests(transceiver.sender, self._asked_for_key_frame)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._peer.setRemoteDescription(RTCSessionDescription(offer.text, "offer"))
                await self._peer.setLocalDescription(await self._peer.createAnswer())
        except TimeoutError as error:
            message = f"no answer could be made within {ANSWER_TIMEOUT_S:.0f} s"
            raise PeerError(message) from error
        except OperationError as error:
            message = "the offer has no H.264 profile that this stream fits into"
            raise NoCommonCodecError(message) from error
        except Exception as error:  # aiortc names no error type for a bad offer; it must not become a 500
            message = f"the offer cannot be answered: {type(error).__name__}"
            logger.info("viewer %d: %s: %s", self.number, message, error)
            raise PeerError(message) from error
        answer = self._peer.localDescription.sdp
        _require_h264(answer, transceiver)
        return answer

    def is_restart(self, fragment: Fragment) -> bool:
        """Whether the fragment belongs to other ICE credentials than the offer's."""
        return fragment.ufrag not in ("", self._ufrag)

    async def add_candidates(self, fragment: Fragment) -> int:
        """Add trickled candidates, as far as they can be used and are not too many; returns how many."""
        taken = 0
        free = MAX_CANDIDATES - self._num_candidates
        self._num_candidates += len(fragment.candidates)
        for text in fragment.candidates[: max(0, free)]:
            try:
                parsed = aiortc_sdp.candidate_from_sdp(text)
            except (ValueError, AssertionError, IndexError):
                continue
            parsed.sdpMid = self._bundle_mid  # all sections share the first one's transport
            try:
                await self._peer.addIceCandidate(parsed)
            except ValueError:
                continue
            taken += 1
        return taken

    def stats(self) -> ViewerStats:
        """Counters at this moment."""
        sent = self._track.counters
        return ViewerStats(
            number=self.number,
            state=self._peer.connectionState,
            sealed=self._keep_sealed,
            age_s=round(time.monotonic() - self._opened_s, 1),
            units=sent.units,
            bytes=sent.bytes,
            skips=sent.skips,
            key_frame_requests=self._num_key_requests,
        )

    async def close(self) -> None:
        """Stop the track, then the peer connection; safe to call again and from several tasks."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name=f"viewer-{self.number}-close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._deadline.cancel()
        self._track.stop()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._peer.close()
        except TimeoutError:
            logger.warning("viewer %d: closing took more than %.0f s", self.number, CLOSE_TIMEOUT_S)

    def _state_changed(self) -> None:
        state = self._peer.connectionState
        logger.info("viewer %d: %s", self.number, state)
        if state == "connected":
            self._deadline.cancel()
        elif state in {"failed", "closed"}:
            self._on_gone(self)

    def _give_up(self) -> None:
        logger.info("viewer %d: not connected after %.0f s", self.number, CONNECT_TIMEOUT_S)
        self._on_gone(self)

    def _asked_for_key_frame(self) -> None:
        self._num_key_requests += 1
        self._request_key_frame()


def _h264_capabilities() -> list:  # type: ignore[type-arg]
    codecs = RTCRtpSender.getCapabilities("video").codecs
    return [codec for codec in codecs if codec.mimeType in (H264, "video/rtx")]


def _hook_key_frame_requests(sender: RTCRtpSender, callback: Callable[[], None]) -> None:
    """Route PLI and FIR to ``callback``: aiortc itself only sets a flag that its packet path ignores."""
    if not callable(getattr(sender, "_send_keyframe", None)):
        message = "aiortc has no RTCRtpSender._send_keyframe: this release does not fit (expected 1.16)"
        raise PeerError(message)
    sender._send_keyframe = callback  # type: ignore[method-assign]  # there is no public hook


def _require_h264(answer: str, transceiver: RTCRtpTransceiver) -> None:
    """Refuse anything but H.264 as the first codec of our section: that is the one aiortc packetises with."""
    media = [m for m in aiortc_sdp.SessionDescription.parse(answer).media if m.rtp.muxId == transceiver.mid]
    mime = media[0].rtp.codecs[0].mimeType if media and media[0].rtp.codecs else "nothing"
    if mime != H264:
        message = f"negotiated {mime}, expected {H264}"
        raise PeerError(message)
