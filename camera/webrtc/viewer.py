"""One WHEP session: a peer connection that sends one PacketTrack and nothing else."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from aiortc import RTCRtpSender, RTCSessionDescription
from aiortc.exceptions import OperationError

from base.errors import PeerError
from camera.webrtc.adapt import Adapter, LinkReport
from camera.webrtc.ice import IceServer, new_peer
from camera.webrtc.offer import Fragment, Offer
from camera.webrtc.pacer import pace
from camera.webrtc.reports import newest_report
from camera.webrtc.sending import h264_capabilities, hook_key_frame_requests, require_h264
from camera.webrtc.track import PacketTrack
from camera.webrtc.trickle import Trickle

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 10.0


class NoCommonCodecError(PeerError):
    """The offer has no codec that the stream can be sent with."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a viewer asked for. The sealed layer is in the main rendition only."""

    keep_sealed: bool = False
    rendition: str = "auto"  # auto, main or sub

    @property
    def is_adaptive(self) -> bool:
        """Whether loss and delay choose the rendition."""
        return self.rendition == "auto" and not self.keep_sealed


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
    rendition: str = "main"
    loss: float = 0.0  # share of packets lost, as last reported
    rtt_ms: float | None = None


class Viewer:
    """Guards one session's life: answered once, connected within 20 s, closed once with all it holds."""

    def __init__(
        self,
        session_id: str,
        number: int,
        track: PacketTrack,
        *,
        wish: Wish,
        count_key_request: Callable[[], None],
        on_gone: Callable[[Viewer], None],
        ice_servers: Sequence[IceServer] = (),
    ) -> None:
        self.session_id = session_id
        self.number = number
        self._track = track
        self._wish = wish
        self._count_key_request = count_key_request
        self._on_gone = on_gone
        self._opened_s = time.monotonic()
        self._num_key_requests = 0
        self._is_paced = False
        self._trickle: Trickle | None = None
        self._sender: RTCRtpSender | None = None
        self._adapter = Adapter()
        self._link = LinkReport(0.0)
        self._last_report: datetime | None = None
        self._peer = new_peer(ice_servers)
        self._peer.on("connectionstatechange", self._state_changed)
        track.on("ended", lambda: on_gone(self))
        self._deadline = asyncio.get_running_loop().call_later(CONNECT_TIMEOUT_S, self._give_up)
        self._closing: asyncio.Task[None] | None = None

    async def answer(self, offer: Offer) -> str:
        """Take the offer and return the answer's SDP, with all our candidates.

        Raises:
            PeerError: the offer cannot be answered, or H.264 was not what came out of the negotiation.
        """
        self._trickle = Trickle(offer)
        transceiver = self._peer.addTransceiver(self._track, direction="sendonly")
        transceiver.setCodecPreferences(h264_capabilities())
        self._sender = transceiver.sender
        hook_key_frame_requests(transceiver.sender, self._asked_for_key_frame)
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
        require_h264(answer, transceiver)
        return answer

    def is_restart(self, fragment: Fragment) -> bool:
        """Whether the fragment belongs to other ICE credentials than the offer's."""
        return self._trickle is not None and self._trickle.is_restart(fragment)

    async def add_candidates(self, fragment: Fragment) -> int:
        """Add trickled candidates, as far as they can be used and are not too many; returns how many."""
        return await self._trickle.add(self._peer, fragment) if self._trickle is not None else 0

    async def adapt(self) -> None:
        """Look at the newest receiver report and pick the rendition; called about once a second."""
        if self._sender is None or self._peer.connectionState != "connected":
            return
        if self._wish.rendition == "sub" and not self._wish.keep_sealed:
            self._track.switch("sub")
        report = await newest_report(self._sender)
        if report is None or report.timestamp == self._last_report:
            return
        self._last_report = report.timestamp
        self._link = LinkReport(
            (report.fractionLost or 0) / 256, report.roundTripTime, self._track.counters.skips
        )
        if self._wish.is_adaptive:
            self._track.switch(self._adapter.report(self._link, time.monotonic()))

    def stats(self) -> ViewerStats:
        """Counters at this moment."""
        sent = self._track.counters
        return ViewerStats(
            number=self.number,
            state=self._peer.connectionState,
            sealed=self._wish.keep_sealed,
            age_s=round(time.monotonic() - self._opened_s, 1),
            units=sent.units,
            bytes=sent.bytes,
            skips=sent.skips,
            key_frame_requests=self._num_key_requests,
            rendition=self._track.rendition,
            loss=round(self._link.loss, 3),
            rtt_ms=None if self._link.rtt_s is None else round(1000 * self._link.rtt_s, 1),
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
            self._pace()
        elif state in {"failed", "closed"}:
            self._on_gone(self)

    def _give_up(self) -> None:
        logger.info("viewer %d: not connected after %.0f s", self.number, CONNECT_TIMEOUT_S)
        self._on_gone(self)

    def _pace(self) -> None:
        if self._sender is not None and not self._is_paced:
            self._is_paced = True
            pace(self._sender)

    def _asked_for_key_frame(self) -> None:
        self._num_key_requests += 1
        self._count_key_request()
        self._track.request_key_frame()
