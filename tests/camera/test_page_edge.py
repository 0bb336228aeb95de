"""The page of a camera that detects on edge workers, in headless Chromium: everything is real."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import cv2
import pytest

from tests.support.chromium import Chromium, find_chromium
from tests.support.edge_camera import edge_camera
from tests.support.edge_worker import ScriptedWorker

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        find_chromium() is None and os.environ.get("VEILCAM_REQUIRE_ALL") != "1", reason="no chromium"
    ),
]

LIVE = "document.querySelector('#status')?.dataset.state === 'live'"
TILES = "[...document.querySelectorAll('#tiles rect')]"
NAMES = "[...document.querySelectorAll('#tiles text')].map((t) => t.textContent)"
ROWS = """[...document.querySelectorAll('#edge-table tbody tr')]
  .map((row) => [...row.cells].map((cell) => cell.textContent))"""
AWAY = f"['left alone', 'being tried'].some((state) => {ROWS}[1][4].startsWith(state))"
PRESSED = "document.querySelector('#tiles-toggle').getAttribute('aria-pressed')"


async def test_tiles_owners_load_and_latency_are_shown_and_can_be_put_away(tmp_path: Path) -> None:
    async with (
        ScriptedWorker(seconds_per_pixel=5e-7) as a,
        ScriptedWorker(seconds_per_pixel=5e-7) as b,
        edge_camera(a.url, b.url, fps=5) as service,
        Chromium(tmp_path) as page,
    ):
        await page.resize(1280, 1000)
        await page.open(service.url)
        await page.until(LIVE, 60)
        await page.until("!document.querySelector('#edge').hidden")
        await page.until(f"{TILES}.length >= 1")
        names = await page.evaluate(NAMES)
        assert names
        assert all(name.removeprefix("look: ").split(" for ")[0] in {"edge-1", "edge-2"} for name in names)
        await page.until(f"{ROWS}.length === 2 && {ROWS}.every((r) => r[2].endsWith('ms'))")
        rows = await page.evaluate(ROWS)
        assert [row[0] for row in rows] == ["edge-1", "edge-2"]
        assert all(row[1].endswith("%") and row[3].endswith("%") and row[4] == "in use" for row in rows)
        assert "answered" in await page.evaluate("document.querySelector('#edge-counts').textContent")
        await _look_at(page, tmp_path)
        await page.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', {key: 't', bubbles: true}))")
        await page.until(f"{TILES}.length === 0")
        await asyncio.sleep(1.0)
        assert await page.evaluate(f"{TILES}.length") == 0  # and they stay away
        assert await page.evaluate(PRESSED) == "false"
        await b.stop()
        await page.until(AWAY, 30)
        assert not [line for line in page.console if line.startswith("error")]


async def _look_at(page: Chromium, tmp_path: Path) -> None:
    """Pictures of both palettes and a phone, which must not scroll sideways."""
    folder = Path(os.environ.get("VEILCAM_ARTEFACTS", tmp_path))
    for scheme in ("light", "dark"):
        await page.prefer(color_scheme=scheme)
        for name, width, height, scale in (("desktop", 1280, 1000, 1.0), ("phone", 390, 844, 2.0)):
            await page.resize(width, height, scale=scale, mobile=name == "phone")
            await asyncio.sleep(0.3)
            path = folder / f"page-edge-{scheme}-{name}.png"
            await page.screenshot(path, full=name == "phone")
            assert cv2.imread(str(path)) is not None
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"scrolls sideways by {wide} px on a {name}"
    await page.resize(1280, 1000)


async def test_a_camera_without_workers_says_nothing_about_them(tmp_path: Path) -> None:
    async with edge_camera(fps=5) as service, Chromium(tmp_path) as page:
        await page.open(service.url)
        await page.until(LIVE, 60)
        await page.until("document.querySelector('[data-field=version]').textContent.includes('.')")
        assert await page.evaluate("document.querySelector('#edge').hidden")
        assert await page.evaluate("document.querySelector('#tiles-toggle').hidden")
