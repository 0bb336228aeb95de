"""All WHEP sessions of one camera: opened under a limit, found by an unguessable id, closed completely."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from base.errors import PeerError, VeilError
from camera.broadcast import Broadcast
from camera.stats import PipelineStats
from camera.webrtc.ice import IceServer
from camera.webrtc.offer import Offer
from camera.webrtc.track import LiveRendition, PacketTrack, TrackOptions
from camera.webrtc.viewer import Viewer, ViewerStats, Wish

logger = logging.getLogger(__name__)

ADAPT_S = 1.0
LIVE_WITHIN_S = 5.0  # a stream that has sent nothing for longer is not live


class LiveCamera(Protocol):
    """What viewers need of a pipeline."""

    @property
    def broadcast(self) -> Broadcast:
        """Where the units come from."""

    @property
    def sub(self) -> LiveRendition | None:
        """The smaller rendition for viewers on bad links; None: there is none."""

    def request_key_frame(self) -> None:
        """Ask for a new segment soon. Called as often as viewers ask: the camera bounds what it grants."""

    def stats(self) -> PipelineStats:
        """Counters at this moment."""


class TooManyViewersError(PeerError):
    """The limit of sessions is reached."""


class Viewers:
    """The table of sessions. All methods run on the event loop's thread."""

    def __init__(
        self,
        camera: LiveCamera,
        *,
        max_viewers: int = 16,
        options: TrackOptions | None = None,
        ice_servers: Sequence[IceServer] = (),
    ) -> None:
        self.max_viewers = max_viewers
        self.num_key_frame_requests = 0
        self.ice_servers = tuple(ice_servers)
        self._camera = camera
        self._adapting: asyncio.Task[None] | None = None
        self._options = options or TrackOptions()
        self._sessions: dict[str, Viewer] = {}
        self._emptied = asyncio.Event()  # ends the adapting task at once
        self._numbers = itertools.count(1)
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def is_live(self) -> bool:
        """Whether there is a stream to watch at this moment."""
        idle_s = self._camera.broadcast.idle_s
        return idle_s is not None and idle_s <= LIVE_WITHIN_S

    async def open(self, offer: Offer, wish: Wish | None = None) -> tuple[Viewer, str]:
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
        viewer = self._create(wish or Wish())
        self._sessions[viewer.session_id] = viewer
        self._emptied.clear()
        if self._adapting is None or self._adapting.done():
            self._adapting = asyncio.create_task(self._adapt(), name="viewers-adapt")
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
        if not self._sessions:
            self._emptied.set()
        task = asyncio.create_task(viewer.close(), name=f"viewer-{viewer.number}-discard")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close every session and wait until all is given back."""
        for viewer in list(self._sessions.values()):
            self.discard(viewer)
        if self._closing:
            await asyncio.gather(*self._closing)
        if self._adapting is not None:
            await self._adapting

    def stats(self) -> list[ViewerStats]:
        """One entry per session, oldest first."""
        return [viewer.stats() for viewer in self._sessions.values()]

    async def _adapt(self) -> None:
        """Once a second, as long as there are sessions: each viewer's rendition by his link."""
        while self._sessions:
            for viewer in list(self._sessions.values()):
                await viewer.adapt()
            with suppress(TimeoutError):
                async with asyncio.timeout(ADAPT_S):
                    await self._emptied.wait()

    def _count_key_request(self) -> None:
        self.num_key_frame_requests += 1

    def _create(self, wish: Wish) -> Viewer:
        number = next(self._numbers)
        options = replace(self._options, keep_sealed=wish.keep_sealed)
        camera = self._camera
        track = PacketTrack(
            camera.broadcast, f"viewer-{number}", camera.request_key_frame, options, sub=camera.sub
        )
        return Viewer(
            secrets.token_urlsafe(24),
            number,
            track,
            wish=wish,
            count_key_request=self._count_key_request,
            on_gone=self.discard,
            ice_servers=self.ice_servers,
        )
