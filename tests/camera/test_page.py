"""The page in a real browser: headless Chromium over its DevTools socket.

Without Chromium these tests are skipped, unless VEILCAM_REQUIRE_ALL=1 says that everything has to run.
Screenshots go into the folder that VEILCAM_ARTEFACTS names, else into pytest's temporary one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from analytics.detections import DetectionRow
from camera.access_log import AccessLog
from camera.detections import PictureDetections
from camera.events import EventHub
from camera.recordings import RecordingFolder
from camera.recordings_api import RecordingsApi
from tests.support.chromium import Chromium, find_chromium
from tests.support.recordings import record_day
from tests.support.serving import TOKEN, Serving, serving
from tests.support.stand_in import StandInCamera

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        find_chromium() is None and os.environ.get("VEILCAM_REQUIRE_ALL") != "1", reason="no chromium"
    ),
]

FOCUSED = "((e) => e.id || e.className || e.tagName)(document.activeElement)"
LIVE = "document.querySelector('#status')?.dataset.state === 'live'"

# Mean and spread of the picture's luma, and whether it moves, from what <video> shows.
PIXELS = """(async () => {
  const video = document.querySelector('video'), canvas = document.createElement('canvas');
  canvas.width = 64; canvas.height = 36;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const grab = () => { context.drawImage(video, 0, 0, 64, 36);
    const d = context.getImageData(0, 0, 64, 36).data, luma = [];
    for (let i = 0; i < d.length; i += 4) luma.push(0.3 * d[i] + 0.59 * d[i + 1] + 0.11 * d[i + 2]);
    return luma; };
  const first = grab();
  await new Promise((done) => setTimeout(done, 500));
  const second = grab();
  const mean = first.reduce((a, b) => a + b) / first.length;
  return { mean, spread: Math.max(...first) - Math.min(...first),
           moved: Math.max(...first.map((v, i) => Math.abs(v - second[i]))) };
})()"""

STATS = """(() => ['framesDecoded', 'framesDropped', 'freezes', 'packetsLost', 'fps', 'viewers', 'epoch',
  'segmentAge', 'bitrate', 'connection', 'codec', 'size'].reduce((all, name) => ({ ...all,
  [name]: document.querySelector(`[data-field=${name}]`).textContent }), {}))()"""


# The page keeps its connection to itself; this lets a test ask the browser about it.
REMEMBER_PEERS = """globalThis.peers = []; const Real = RTCPeerConnection;
  globalThis.RTCPeerConnection = class extends Real {
    constructor(...all) { super(...all); globalThis.peers.push(this); } };"""
WATCH_PAUSES = """globalThis.longestPause = 0; let before = performance.now();
  setInterval(() => { const now = performance.now();
    globalThis.longestPause = Math.max(globalThis.longestPause, now - before - 20); before = now; }, 20);"""
INBOUND = """(async () => [...(await peers.at(-1).getStats()).values()]
  .find((s) => s.type === 'inbound-rtp'))()"""


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(fps=25) as running:
        while running.broadcast.idle_s is None:
            time.sleep(0.01)
        yield running


@asynccontextmanager
async def watching(
    camera: StandInCamera, folder: Path, *, path: str = "/", **options: Any
) -> AsyncIterator[tuple[Chromium, Serving]]:
    options.setdefault("parts", (EventHub("yard"), AccessLog(), RecordingsApi(None)))
    async with serving(camera, **options) as server, Chromium(folder) as page:
        await page.resize(1280, 900)
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=REMEMBER_PEERS)
        await page.open(server.url + path)
        yield page, server


async def test_chromium_plays_the_stream_without_loss_or_freeze(
    camera: StandInCamera, tmp_path: Path
) -> None:
    async with watching(camera, tmp_path) as (page, _):
        await page.until(LIVE)
        await asyncio.sleep(2.0)  # the fast start is over
        await page.evaluate(WATCH_PAUSES)
        first, start = await page.evaluate(INBOUND), len(camera.times_us)
        pause_ms = await longest_pause_ms(10.0)
        last, end = await page.evaluate(INBOUND), len(camera.times_us)
        pixels, shown = await page.evaluate(PIXELS), await page.evaluate(STATS)
        decoded = last["framesDecoded"] - first["framesDecoded"]
        freezes = last["freezeCount"] - first["freezeCount"]
        pause_ms = max(pause_ms, await page.evaluate("longestPause"))
        steps_us = [b - a for a, b in pairwise(camera.times_us[start:end])]
        pause_ms = max(pause_ms, max(steps_us) / 1000 - 40)
        print(
            f"decoded {decoded} of {end - start}, {freezes} freezes, longest pause {pause_ms:.0f} ms: {shown}"
        )
        assert decoded >= 0.95 * (end - start)
        if (
            pause_ms < 100
        ):  # else camera, server or browser did not get the processor: a freeze proves nothing
            assert freezes == 0
        assert last["packetsLost"] == 0
        last = shown
        assert last["codec"] == "H264"
        assert pixels["mean"] > 60
        assert pixels["spread"] > 60
        assert pixels["moved"] > 20
        assert int(last["viewers"]) == 1
        assert len(bytes.fromhex(last["epoch"])) == 4
        assert 0 <= float(last["segmentAge"]) < 3
        assert float(last["bitrate"]) > 0
        assert last["connection"] == "connected"
        assert not [line for line in page.console if line.startswith("error")]


async def longest_pause_ms(seconds: float) -> float:
    """Wait, and say by how much this process' event loop woke up late at worst."""
    loop = asyncio.get_running_loop()
    end_s, worst_s = loop.time() + seconds, 0.0
    while (before_s := loop.time()) < end_s:
        await asyncio.sleep(0.02)
        worst_s = max(worst_s, loop.time() - before_s - 0.02)
    return 1000 * worst_s


async def test_leaving_the_page_ends_the_session(camera: StandInCamera, tmp_path: Path) -> None:
    log = AccessLog()
    async with watching(camera, tmp_path, parts=(EventHub("yard"), log, RecordingsApi(None))) as (
        page,
        server,
    ):
        await page.until(LIVE)
        assert len(server.viewers) == 1
        await page.call("Page.navigate", url="about:blank")
        # By the page's own goodbye, not only because the connection is found dead.
        async with asyncio.timeout(90):
            while len(server.viewers) or "live-closed" not in [entry.action for entry in log.entries()]:
                await asyncio.sleep(0.1)


async def test_a_camera_that_stops_is_explained_and_found_again(tmp_path: Path) -> None:
    with StandInCamera(fps=25) as camera:
        while camera.broadcast.idle_s is None:
            await asyncio.sleep(0.02)
        async with watching(camera, tmp_path) as (page, _):
            await page.until(LIVE)
            camera.pause()
            await page.until("document.querySelector('#problem').dataset.code === 'lost'", 60)
            await page.until("document.querySelector('#problem').dataset.code === 'not-live'", 60)
            text = await page.evaluate("document.querySelector('#problem').innerText")
            assert "not live" in text
            assert "Try again" in text
            camera.resume()
            await page.until(LIVE, 60)


async def test_the_token_is_asked_for_and_kept_out_of_the_address(
    camera: StandInCamera, tmp_path: Path
) -> None:
    enter = (
        "document.querySelector('#token').value = {value!r};"
        "document.querySelector('#token-form').requestSubmit()"
    )
    async with watching(camera, tmp_path, token=TOKEN) as (page, server):
        await page.until("!document.querySelector('#token-form').hidden")
        assert await page.evaluate("document.activeElement.id") == "token"
        await page.evaluate(enter.format(value="not-the-right-token"))
        await page.until("document.querySelector('#token-error').textContent.length > 0")
        await page.evaluate(enter.format(value=TOKEN))
        await page.until(LIVE)
        await page.evaluate("globalThis.before = true")
        await page.call("Page.reload")
        await page.until(f"!globalThis.before && {LIVE}")
        await page.evaluate("sessionStorage.clear()")
        await page.call("Page.navigate", url="about:blank")
        await page.until("location.href === 'about:blank'")
        await page.open(f"{server.url}/#token={TOKEN}")
        await page.until(LIVE)
        assert TOKEN not in await page.evaluate("location.href")


async def test_a_browser_without_h264_is_told_what_to_do(camera: StandInCamera, tmp_path: Path) -> None:
    without = """const all = RTCRtpReceiver.getCapabilities.bind(RTCRtpReceiver);
        RTCRtpReceiver.getCapabilities = (kind) => ({ ...all(kind),
          codecs: all(kind).codecs.filter((c) => c.mimeType !== 'video/H264') });"""
    async with serving(camera) as server, Chromium(tmp_path) as page:
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=without)
        await page.open(server.url)
        await page.until("document.querySelector('#problem').dataset.code === 'no-h264'")
        text = await page.evaluate("document.querySelector('#problem').innerText")
        assert "OpenH264" in text
        assert len(server.viewers) == 0


async def test_blocked_udp_is_told_apart(camera: StandInCamera, tmp_path: Path) -> None:
    # Without a relay there is none to use: signalling works, and no candidate pair can.
    deaf = """const Real = RTCPeerConnection;
        globalThis.RTCPeerConnection = class extends Real {
          constructor(configuration) { super({ ...configuration, iceTransportPolicy: 'relay' }); } };"""
    async with serving(camera) as server, Chromium(tmp_path) as page:
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=deaf)
        await page.open(server.url)
        await page.until("document.querySelector('#problem').dataset.code === 'ice-failed'", 40)
        assert "UDP" in await page.evaluate("document.querySelector('#problem').innerText")


VIEWS = ("live", "recordings", "activity", "camera")
# Noon of a day that has recordings: three files, the second follows at once, the third after ten minutes.
NOON = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
SPANS = [(NOON, 30.0), (NOON + timedelta(seconds=30), 30.0), (NOON + timedelta(minutes=10), 30.0)]
PLAYER = """(() => { const v = document.querySelector('#playback');
  return { time: v.currentTime, ready: v.readyState, paused: v.paused, width: v.videoWidth,
           problem: document.querySelector('#playback-problem').hidden ? '' :
                    document.querySelector('#playback-problem').innerText,
           clock: document.querySelector('#timeline').getAttribute('aria-valuetext') }; })()"""
BOXES = """[...document.querySelectorAll('#boxes rect[stroke]')].map((r) =>
  ['x', 'y', 'width', 'height'].map((name) => Number(r.getAttribute(name))))"""
NO_MEDIA_SOURCE = "delete globalThis.MediaSource; delete globalThis.ManagedMediaSource;"
PERSON = DetectionRow(label="person", score=0.91, box_xyxy=[64.0, 36.0, 128.0, 180.0])


def artefacts(folder: Path) -> Path:
    """Where screenshots go."""
    chosen = Path(os.environ.get("VEILCAM_ARTEFACTS") or folder)
    chosen.mkdir(parents=True, exist_ok=True)
    return chosen


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> RecordingFolder:
    folder = tmp_path_factory.mktemp("tapes") / "yard"
    record_day(folder, SPANS)
    return RecordingFolder(folder)


async def go(page: Chromium, view: str) -> None:
    await page.evaluate(f"location.hash = '#/{view}'")
    await page.until(f"!document.querySelector('#view-{view}').hidden")


@pytest.mark.parametrize("view", VIEWS)
async def test_every_view_looks_as_meant_in_light_dark_and_on_a_phone(
    camera: StandInCamera, recordings: RecordingFolder, tmp_path: Path, view: str
) -> None:
    hub = EventHub("yard")
    parts = (hub, AccessLog(), RecordingsApi(recordings))
    async with watching(camera, tmp_path, parts=parts) as (page, _):
        await page.until(LIVE)
        await page.until("document.querySelectorAll('#checks li').length === 4")
        await go(page, view)
        if view == "recordings":
            await page.until(f"{PLAYER}.ready >= 2", 60)
        for scheme in ("light", "dark"):
            await page.prefer(color_scheme=scheme)
            for name, width, height, scale in (("desktop", 1280, 900, 1.0), ("phone", 390, 844, 2.0)):
                await page.resize(width, height, scale=scale, mobile=name == "phone")
                hub.detected(PictureDetections(640, 360, (PERSON,)))
                await asyncio.sleep(0.3)
                path = artefacts(tmp_path) / f"page-{view}-{scheme}-{name}.png"
                await page.screenshot(path, full=False)
                image = cv2.imread(str(path))
                assert image is not None
                ground = float(np.median(image[:, :8]))
                assert ground > 200 if scheme == "light" else ground < 60
                wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, f"{view} on a {name} scrolls sideways by {wide} px"
        assert not [line for line in page.console if line.startswith("error")]


async def test_the_page_is_usable_by_keyboard_and_named_for_screen_readers(
    camera: StandInCamera, recordings: RecordingFolder, tmp_path: Path
) -> None:
    parts = (EventHub("yard"), AccessLog(), RecordingsApi(recordings))
    async with watching(camera, tmp_path, parts=parts) as (page, _):
        await page.until(LIVE)
        seen = []
        for _ in range(8):
            await page.press("Tab", 9)
            seen.append(await page.evaluate(FOCUSED))
        assert seen == ["skip", "A", "A", "A", "A", "boxes-toggle", "fullscreen", "SUMMARY"]
        for view in VIEWS:
            await go(page, view)
            if view != "live":  # a view's heading is where reading goes on
                await page.until(f"document.activeElement.id === '{view}-title'")
            if view == "recordings":
                await page.until("!document.querySelector('#recordings-table').hidden", 60)
            tree = (await page.call("Accessibility.getFullAXTree"))["nodes"]
            named = {(n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if "role" in n}
            controls = ("button", "textbox", "link", "slider", "combobox", "table")
            assert not [role for role, name in named if role in controls and not name]
            assert any(role == "status" for role, _ in named)
            assert any(role == "heading" and "veilcam" in name for role, name in named)
            assert await page.evaluate("document.querySelectorAll('.tabs [aria-current=page]').length") == 1
            if view == "live":
                assert ("button", "Full screen") in named
            if view == "recordings":
                assert ("slider", "Time of the recording") in named


async def test_recordings_play_over_their_gaps_and_by_keyboard(
    camera: StandInCamera, recordings: RecordingFolder, tmp_path: Path
) -> None:
    log = AccessLog()
    parts = (EventHub("yard"), log, RecordingsApi(recordings))
    async with watching(camera, tmp_path, path="/#/recordings", parts=parts) as (page, _):
        await page.until(f"{PLAYER}.ready >= 2", 60)
        shown = await page.evaluate(PLAYER)
        assert (shown["width"], shown["paused"]) == (320, True)
        third = NOON.hour * 3600 + 600  # seconds of the day; the last recording is offered first
        assert shown["time"] == pytest.approx(third, abs=0.1)
        await page.evaluate("document.querySelector('#timeline').focus()")
        await page.press("Home", 36)
        await page.until(f"Math.abs({PLAYER}.time - {NOON.hour * 3600}) < 0.1 && {PLAYER}.ready >= 2", 60)
        await page.press("ArrowRight", 39)
        await page.until(f"Math.abs({PLAYER}.time - {NOON.hour * 3600 + 10}) < 0.1")
        assert (await page.evaluate(PLAYER))["clock"].endswith(":00:10")
        await page.evaluate("document.querySelector('#speed').value = '8'")
        await page.evaluate("document.querySelector('#speed').dispatchEvent(new Event('change'))")
        await page.evaluate("document.querySelector('#play').click()")
        # From file to file without a stop, and over ten minutes without a recording.
        await page.until(f"{PLAYER}.time > {third + 1}", 100)
        assert (await page.evaluate(PLAYER))["problem"] == ""
        watched = [entry for entry in log.entries() if entry.action == "recording-watched"]
        assert len(watched) == 3


async def test_boxes_that_a_detector_reports_are_drawn_and_told(
    camera: StandInCamera, tmp_path: Path
) -> None:
    hub = EventHub("yard")
    async with watching(camera, tmp_path, parts=(hub, AccessLog(), RecordingsApi(None))) as (page, server):
        await page.until(LIVE)
        for _ in range(2):
            hub.detected(PictureDetections(640, 360, (PERSON,)))
        await page.until(f"{BOXES}.length === 1")
        assert await page.evaluate(BOXES) == [[64, 36, 64, 144]]
        assert "person 91" in await page.evaluate("document.querySelector('#boxes').textContent")
        await page.until("document.querySelector('#seen').textContent === 'In view: 1 person'")
        await page.until(f"{BOXES}.length === 0")  # they do not stay when no more come
        await page.evaluate("document.querySelector('#boxes-toggle').click()")
        hub.detected(PictureDetections(640, 360, (PERSON,)))
        await go(page, "activity")
        await page.until("document.querySelector('#events').textContent.includes('Person appeared')")
        assert await page.evaluate(f"{BOXES}.length") == 0
        await page.until("document.querySelector('#access-table').textContent.includes('opened the live')")
        await page.until("document.querySelector('#viewers-table').textContent.includes('connected')")
        assert len(server.viewers) == 1


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("", "does not record"),
        ("delete globalThis.MediaSource; delete globalThis.ManagedMediaSource;", "MP4"),
    ],
    ids=["not recording", "no media source extensions"],
)
async def test_what_keeps_recordings_from_playing_is_said(
    camera: StandInCamera, recordings: RecordingFolder, tmp_path: Path, before: str, words: str
) -> None:
    api = RecordingsApi(recordings if before else None)
    async with (
        serving(camera, parts=(EventHub("yard"), AccessLog(), api)) as server,
        Chromium(tmp_path) as page,
    ):
        # Without the live picture: it is not what this is about.
        source = before + "delete globalThis.RTCPeerConnection;"
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=source)
        await page.open(server.url + "/#/recordings")
        await page.until(f"document.querySelector('#view-recordings').innerText.includes({words!r})", 60)
        await go(page, "live")
        await page.until("document.querySelector('#problem').dataset.code === 'no-webrtc'")
