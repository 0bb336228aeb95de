"""What a browser sees: headless Chromium on the camera's own page, for ``bench.live``."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from camera.service import CameraService
from tests.support.chromium import Chromium

MASK = 0xFFFFFFFF
COLLECT = """(() => { const video = document.querySelector('video'), seen = globalThis.benchFrames = [];
  const step = (now, frame) => {
    seen.push([frame.rtpTimestamp, performance.timeOrigin + frame.expectedDisplayTime]);
    video.requestVideoFrameCallback(step); };
  video.requestVideoFrameCallback(step); })()"""
REMEMBER_PEERS = """globalThis.peers = []; const Real = RTCPeerConnection;
  globalThis.RTCPeerConnection = class extends Real {
    constructor(...all) { super(...all); globalThis.peers.push(this); } };"""
FIGURES = """(async () => { const rtp = [...(await peers.at(-1).getStats()).values()]
  .find((s) => s.type === 'inbound-rtp');
  return [rtp.framesDecoded, rtp.framesDropped, rtp.freezeCount, rtp.packetsLost, peers.length]; })()"""


@dataclass(frozen=True, slots=True)
class Seen:
    """One run: counts over the measured time, and capture to display in milliseconds per picture shown."""

    decoded: int
    published: int
    dropped: int
    freezes: int
    packets_lost: int
    sessions: int  # above 1: the page had to connect again
    display_ms: tuple[float, ...]


async def watch(service: CameraService, seconds: float, published_us: Sequence[int]) -> Seen:
    """Open the page, let it settle for 3 s, then count and time for ``seconds``.

    Args:
        service: a running camera in this process.
        seconds: how long.
        published_us: capture times of what was published, growing while this runs.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with Chromium(Path(folder)) as page:
            await page.resize(1280, 900)
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=REMEMBER_PEERS)
            await page.open(service.url)
            await page.until("document.querySelector('#status')?.dataset.state === 'live'")
            await asyncio.sleep(3.0)
            await page.evaluate(COLLECT)
            before = await page.evaluate(FIGURES)
            count_before = len(published_us)
            origin = await _rtp_origin(service, seconds)
            after = await page.evaluate(FIGURES)
            count = len(published_us) - count_before
            frames = await page.evaluate("globalThis.benchFrames")
    stamps = {(origin + time_us * 9 // 100) & MASK: time_us for time_us in published_us}
    return Seen(
        decoded=int(after[0] - before[0]),
        published=count,
        dropped=int(after[1] - before[1]),
        freezes=int(after[2] - before[2]),
        packets_lost=int(after[3] - before[3]),
        sessions=int(after[4]),
        display_ms=tuple(_delays(frames, stamps)),
    )


async def _rtp_origin(service: CameraService, seconds: float) -> int:
    """Watch the only viewer's sender for ``seconds``: its RTP time minus the capture time it stands for.

    The sender adds a random number to our times and does not tell; between two pictures it can be read off.
    """
    votes: Counter[int] = Counter()
    loop = asyncio.get_running_loop()
    end_s = loop.time() + seconds
    while loop.time() < end_s:
        await asyncio.sleep(0.013)
        for viewer in service.viewers._sessions.values():
            sender: Any = viewer._peer.getSenders()[0]
            sent_us = viewer._track._last_us
            if sent_us is not None:
                votes[(sender._RTCRtpSender__rtp_timestamp - sent_us * 9 // 100) & MASK] += 1
    return votes.most_common(1)[0][0] if votes else 0


def _delays(frames: list[tuple[int | None, float]], stamps: dict[int, int]) -> list[float]:
    delays = []
    for stamp, shown_ms in frames:
        if stamp is None:
            continue
        time_us = next((stamps[s] for s in (stamp, stamp - 1, stamp + 1) if s in stamps), None)
        if time_us is not None:
            delays.append(round(shown_ms - time_us / 1e3, 2))
    return delays
