"""All WHEP sessions of one camera: opened under a limit, found by an unguessable id, closed without leftovers."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from base.errors import PeerError, VeilError
from camera.broadcast import Broadcast
from camera.stats import PipelineStats
from camera.webrtc.offer import Offer
from camera.webrtc.track import PacketTrack, TrackOptions
from camera.webrtc.viewer import Viewer, ViewerStats

logger = logging.getLogger(__name__)

LIVE_WITHIN_S = 5.0  # a stream that has sent nothing for longer is not live
KEY_FRAME_GAP_S = 0.5


class LiveCamera(Protocol):
    """What viewers need of a pipeline."""

    @property
    def broadcast(self) -> Broadcast:
        """Where the units come from."""

    def request_key_frame(self) -> None:
        """Ask for a new segment soon."""

    def stats(self) -> PipelineStats:
        """Counters at this moment."""


class TooManyViewersError(PeerError):
    """The limit of sessions is reached."""


class KeyFrameRequests:
    """Passes at most one request per ``KEY_FRAME_GAP_S`` on; the viewers share one encoder."""

    def __init__(self, forward: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.num_asked = 0
        self.num_forwarded = 0
        self._forward = forward
        self._clock = clock
        self._last_s: float | None = None

    def __call__(self) -> None:
        """Ask for a key frame."""
        self.num_asked += 1
        now_s = self._clock()
        if self._last_s is None or now_s - self._last_s >= KEY_FRAME_GAP_S:
            self._last_s = now_s
            self.num_forwarded += 1
            self._forward()


class Viewers:
    """The table of sessions. All methods run on the event loop's thread."""

    def __init__(self, camera: LiveCamera, *, max_viewers: int = 16, options: TrackOptions | None = None) -> None:
        self.max_viewers = max_viewers
        self.key_frames = KeyFrameRequests(camera.request_key_frame)
        self._camera = camera
        self._options = options or TrackOptions()
        self._sessions: dict[str, Viewer] = {}
        self._numbers = itertools.count(1)
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def is_live(self) -> bool:
        """Whether there is a stream to watch at this moment."""
        idle_s = self._camera.broadcast.idle_s
        return idle_s is not None and idle_s <= LIVE_WITHIN_S

    async def open(self, offer: Offer, *, keep_sealed: bool = False) -> tuple[Viewer, str]:
        """Answer an offer with a new session.

        Returns:
            The session and the answer's SDP.

        Raises:
            TooManyViewersError: no session is free.
            PeerError: the offer cannot be answered.
        """
        if len(self._sessions) >= self.max_viewers:
            message = f"{len(self._sessions)} viewers are connected, the limit is {self.max_viewers}"
            raise TooManyViewersError(message)
        viewer = self._create(keep_sealed)
        self._sessions[viewer.session_id] = viewer
        try:
            return viewer, await viewer.answer(offer)
        except (VeilError, asyncio.CancelledError):
            self.discard(viewer)
            raise

    def find(self, session_id: str) -> Viewer | None:
        """The session of that id."""
        return self._sessions.get(session_id)

    def discard(self, viewer: Viewer) -> None:
        """Forget a session at once and close it in the background (an answer to DELETE must not wait)."""
        if self._sessions.pop(viewer.session_id, None) is None:
            return
        task = asyncio.create_task(viewer.close(), name=f"viewer-{viewer.number}-discard")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close every session and wait until all is given back."""
        for viewer in list(self._sessions.values()):
            self.discard(viewer)
        if self._closing:
            await asyncio.gather(*self._closing)

    def stats(self) -> list[ViewerStats]:
        """One entry per session, oldest first."""
        return [viewer.stats() for viewer in self._sessions.values()]

    def _create(self, keep_sealed: bool) -> Viewer:
        number = next(self._numbers)
        options = replace(self._options, keep_sealed=keep_sealed)
        track = PacketTrack(self._camera.broadcast, f"viewer-{number}", self.key_frames, options)
        return Viewer(
            secrets.token_urlsafe(24),
            number,
            track,
            keep_sealed=keep_sealed,
            request_key_frame=self.key_frames,
            on_gone=self.discard,
        )
