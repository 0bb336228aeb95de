"""WHIP publishing (RFC 9725, the client's side): the ready stream to a media server; reconnects for ever."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from aiortc import RTCPeerConnection, RTCRtpSender, RTCSessionDescription

from analytics.sdp_exchange import SdpExchange
from base.errors import PeerError
from camera.outputs.target import OutputState, Phase, PublishTarget
from camera.sources.backoff import Backoff
from camera.webrtc.ice import new_peer
from camera.webrtc.reports import ReportWatch, newest_report
from camera.webrtc.sending import h264_capabilities, hook_key_frame_requests, require_h264
from camera.webrtc.track import PacketTrack, TrackCounters, TrackOptions
from camera.webrtc.viewers import LiveCamera

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 15.0
MAX_PAUSE_S = 2.0
LIVE_POLL_S = 0.25
REPORT_POLL_S = 0.5


class WhipOutput:
    """One WHIP endpoint. All methods run on the event loop's thread."""

    def __init__(self, target: PublishTarget, camera: LiveCamera) -> None:
        self._target = target
        self._camera = camera
        self._backoff = Backoff(base_s=0.5, cap_s=MAX_PAUSE_S)
        self._phase: Phase = "waiting"
        self._before = TrackCounters()
        self._track: PacketTrack | None = None
        self._reconnects = 0
        self._error = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to publish."""
        self._task = asyncio.create_task(self._run(), name=f"publish {self._target.name}")

    async def close(self) -> bool:
        """End the session at the server and free everything."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        return True

    def state(self) -> OutputState:
        """What it does at this moment."""
        now = self._track.counters if self._track is not None else TrackCounters()
        return OutputState(
            self._target.name,
            self._phase,
            self._target.layer,
            self._reconnects,
            self._before.units + now.units,
            self._before.bytes + now.bytes,
            0,
            self._error,
        )

    async def _run(self) -> None:
        try:
            while True:
                await self._until_live()
                sent_before = self._before.units
                try:
                    await self._session()
                except PeerError as error:
                    self._note(str(error))
                except TimeoutError:
                    self._note(f"no media path within {CONNECT_TIMEOUT_S:.0f} s")
                if self._before.units > sent_before:
                    self._backoff.reset()
                self._phase = "waiting"
                self._reconnects += 1
                await asyncio.sleep(self._backoff.next_delay_s())
        finally:
            self._phase = "stopped"

    async def _until_live(self) -> None:
        """A session that sends nothing is closed by servers: wait for the first picture."""
        while self._camera.broadcast.idle_s is None:
            await asyncio.sleep(LIVE_POLL_S)

    async def _session(self) -> None:
        """One session, until it ends; counts what it sent.

        Raises:
            PeerError: the server refuses, or the media connection fails.
            TimeoutError: it does not come up.
        """
        self._phase = "connecting"
        peer = new_peer()
        exchange = SdpExchange(self._target.url, self._target.token)
        options = TrackOptions(keep_sealed=self._target.layer == "sealed")
        camera = self._camera
        track = PacketTrack(camera.broadcast, "publish", camera.request_key_frame, options)
        self._track = track
        ended = asyncio.Event()
        connected = asyncio.Event()
        peer.on("connectionstatechange", lambda: _note_state(peer, connected, ended))
        track.on("ended", ended.set)
        try:
            transceiver = peer.addTransceiver(track, direction="sendonly")
            transceiver.setCodecPreferences(h264_capabilities())
            hook_key_frame_requests(transceiver.sender, camera.request_key_frame)
            await peer.setLocalDescription(await peer.createOffer())
            answer = await exchange.post(peer.localDescription.sdp)
            await self._accept(peer, answer)
            require_h264(answer, transceiver)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connected.wait()
            self._phase = "publishing"
            raise PeerError(await _end_of(transceiver.sender, ended))
        finally:
            self._track = None
            self._before.units += track.counters.units
            self._before.bytes += track.counters.bytes
            track.stop()
            await asyncio.shield(_closed(peer, exchange))

    async def _accept(self, peer: RTCPeerConnection, answer: str) -> None:
        try:
            await peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        except Exception as error:  # aiortc names no error type for a bad answer
            message = f"the answer cannot be used: {type(error).__name__}"
            raise PeerError(message) from error

    def _note(self, reason: str) -> None:
        if reason != self._error:
            logger.warning("publish %s: %s", self._target.name, reason)
        self._error = reason


async def _end_of(sender: RTCRtpSender, ended: asyncio.Event) -> str:
    """Wait for the end; how it came."""
    watch = ReportWatch(time.monotonic)
    while not ended.is_set():
        report = await newest_report(sender)
        if watch.is_gone(None if report is None else report.timestamp):
            return "the server does not report any more"
        with suppress(TimeoutError):
            async with asyncio.timeout(REPORT_POLL_S):
                await ended.wait()
    return "the session ended"


def _note_state(peer: RTCPeerConnection, connected: asyncio.Event, ended: asyncio.Event) -> None:
    if peer.connectionState == "connected":
        connected.set()
    elif peer.connectionState in {"failed", "closed"}:
        ended.set()
        connected.set()


async def _closed(peer: RTCPeerConnection, exchange: SdpExchange) -> None:
    await exchange.close()
    await peer.close()
