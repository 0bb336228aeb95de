"""Changes of the camera itself as notices: live or not, recording or not, viewers that come and go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from analytics.events import Notice, NoticeName
from camera.events import EventHub

EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class CameraMoment:
    """What is compared from second to second.

    Attributes:
        live: there is a picture.
        recording: None when nothing is to be recorded; False while the recorder cannot write.
        recorder_error: why it cannot.
        viewers: numbers of the sessions.
        error: why the pipeline failed; "" while all is well.
    """

    live: bool
    recording: bool | None = None
    recorder_error: str = ""
    viewers: frozenset[int] = frozenset()
    error: str = ""


def notices(camera: str, before: CameraMoment | None, now: CameraMoment, time_s: float) -> list[Notice]:
    """What changed between two moments. Pure.

    Args:
        camera: its name.
        before: None at the start, when the whole state is told.
        now: the later moment.
        time_s: Unix seconds.
    """
    told: list[tuple[NoticeName, str]] = []
    if before is None or before.live != now.live:
        told.append(("live", "pictures arrive") if now.live else ("not-live", "no pictures arrive"))
    if now.recording is not None and (before is None or before.recording != now.recording):
        told.append(("recording", "") if now.recording else ("recording-stopped", now.recorder_error))
    known = frozenset() if before is None else before.viewers
    told += [("viewer-joined", f"viewer {number}") for number in sorted(now.viewers - known)]
    told += [("viewer-left", f"viewer {number}") for number in sorted(known - now.viewers)]
    if now.error and (before is None or before.error != now.error):
        told.append(("error", now.error))
    return [Notice(camera, name, time_s, detail) for name, detail in told]


class CameraWatch:
    """Looks once a second and publishes what has changed."""

    def __init__(self, hub: EventHub, look: Callable[[], CameraMoment]) -> None:
        self._hub = hub
        self._look = look
        self._before: CameraMoment | None = None

    def look(self) -> None:
        """Compare with the last look."""
        now = self._look()
        self._hub.publish(*notices(self._hub.camera, self._before, now, time.time()))
        self._before = now
        self._hub.tick()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(EVERY_S)
