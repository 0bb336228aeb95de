"""The recording plays in a browser that knows nothing of us."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from codec.container import Fmp4Writer
from tests.codec.media import HEIGHT, RATE, WIDTH, ffmpeg, protected_units
from tests.support.chromium import Chromium, find_chromium

UNITS = protected_units()
PLAY = """(async () => {
    const video = document.createElement('video');
    video.muted = true;
    video.src = location.origin + '/%s';
    document.body.append(video);
    await new Promise((done, fail) => {
        video.onended = done;
        video.onerror = () => fail(new Error(video.error.message));
        video.play().catch(fail);
    });
    const quality = video.getVideoPlaybackQuality();
    return [quality.totalVideoFrames, quality.droppedVideoFrames, quality.corruptedVideoFrames,
            video.videoWidth, video.videoHeight, video.duration];
})()"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="required: Debian's chromium"),
]


async def test_chromium_plays_every_picture_of_fragmented_and_of_remuxed_files(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.mp4"
    with Fmp4Writer(recorded, WIDTH, HEIGHT) as writer:
        for unit in UNITS:
            writer.write(unit)
    ffmpeg("-i", recorded, "-c", "copy", "-movflags", "+faststart", tmp_path / "remuxed.mp4")

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>play</title>", content_type="text/html")

    application = web.Application()
    application.router.add_get("/", page)
    application.router.add_static("/", tmp_path)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with Chromium(tmp_path) as browser:
            await browser.open(f"http://{host}:{port}/")
            for name in ("recorded.mp4", "remuxed.mp4"):
                total, dropped, corrupted, width, height, seconds = await browser.evaluate(PLAY % name)
                assert (total, corrupted, width, height) == (len(UNITS), 0, WIDTH, HEIGHT)
                assert dropped <= 2, "a busy machine may drop one; the file does not make it"
                assert seconds == pytest.approx(len(UNITS) / RATE, abs=0.01)
    finally:
        await runner.cleanup()
