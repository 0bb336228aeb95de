"""Headless Chromium over its DevTools socket, with nothing but aiohttp.

The browser gets a profile folder of its own and only its own process group is ended.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--mute-audio",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
START_S = 60.0
CALL_S = 60.0


def find_chromium() -> str | None:
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class PageError(AssertionError):
    """The page threw, or DevTools refused a command."""


class Chromium:
    """One browser with one page. ``async with Chromium(tmp_path) as page``."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.console: list[str] = []
        self._folder = folder / "chromium"
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        self._http: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def __aenter__(self) -> Self:
        binary = find_chromium()
        assert binary is not None, "chromium is not installed"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [binary, *FLAGS, *self._flags, f"--user-data-dir={self._folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            await self._attach()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            await self._socket.close()
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        if self._http is not None:
            await self._http.close()
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            try:
                await asyncio.to_thread(self._process.wait, 10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                await asyncio.to_thread(self._process.wait, 10)

    async def open(self, url: str) -> None:
        """Go to a page and wait for its load event's state."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def evaluate(self, expression: str) -> Any:
        """The JSON value of an expression; promises are awaited."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise PageError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    async def until(self, expression: str, timeout_s: float = 90.0) -> None:
        """Wait until an expression is true."""
        try:
            async with asyncio.timeout(timeout_s):
                while not await self.evaluate(expression):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            text = await self.evaluate("document.body.innerText")
            message = f"not within {timeout_s} s: {expression}\npage: {text[:600]}\nconsole: {self.console}"
            raise PageError(message) from None

    async def resize(self, width: int, height: int, *, scale: float = 1.0, mobile: bool = False) -> None:
        """Give the page a size in CSS pixels."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )

    async def prefer(self, **features: str) -> None:
        """Set media features: ``prefer(color_scheme="dark")``."""
        values = [{"name": "prefers-" + name.replace("_", "-"), "value": v} for name, v in features.items()]
        await self.call("Emulation.setEmulatedMedia", features=values)

    async def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    async def screenshot(self, path: Path, *, full: bool = True) -> None:
        """Write what is seen as PNG."""
        answer = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(answer["data"]))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A DevTools command."""
        assert self._socket is not None
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(CALL_S):
            answer = await self._waiting[number]
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    async def _attach(self) -> None:
        port_file = self._folder / "DevToolsActivePort"
        async with asyncio.timeout(START_S):
            while not port_file.exists() or "\n" not in port_file.read_text():
                await asyncio.sleep(0.1)
        port = int(port_file.read_text().split("\n", maxsplit=1)[0])
        self._http = aiohttp.ClientSession()
        async with self._http.get(f"http://127.0.0.1:{port}/json/list") as response:
            targets = await response.json()
        page = next(target for target in targets if target["type"] == "page")
        self._socket = await self._http.ws_connect(
            page["webSocketDebuggerUrl"], max_msg_size=64 * 1024 * 1024
        )
        self._reader = asyncio.create_task(self._read(self._socket))
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            data = json.loads(message.data)
            if "id" in data:
                future = self._waiting.pop(data["id"], None)
                if future is not None and not future.done():
                    future.set_result(data)
            elif data["method"] == "Runtime.exceptionThrown":
                self.console.append(json.dumps(data["params"]["exceptionDetails"])[:500])
            elif data["method"] == "Log.entryAdded":
                entry = data["params"]["entry"]
                self.console.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
