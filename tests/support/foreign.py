"""Programs of others that our endpoints have to get on with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

CLIENTS = Path(__file__).parent / "vendor" / "whip-whep"

_PAGE = """<!doctype html><title>client</title><video id="v" autoplay muted playsinline></video>
<script type="module">
import { WHIPClient } from "./whip.js";
import { WHEPClient } from "./whep.js";
globalThis.watch = async (url, token) => {
  const peer = globalThis.peer = new RTCPeerConnection();
  peer.addTransceiver("video", { direction: "recvonly" });
  peer.ontrack = (event) => { document.querySelector("#v").srcObject = event.streams[0]; };
  globalThis.client = new WHEPClient();
  await client.view(peer, url, token);
};
globalThis.publish = async (url, token) => {
  const media = await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 360 } });
  const peer = globalThis.peer = new RTCPeerConnection();
  const transceiver = peer.addTransceiver(media.getVideoTracks()[0],
    { direction: "sendonly", streams: [media] });
  const all = RTCRtpSender.getCapabilities("video").codecs;
  transceiver.setCodecPreferences(all.filter((codec) => codec.mimeType === "video/H264"));
  globalThis.client = new WHIPClient();
  await client.publish(peer, url, token);
};
globalThis.stat = async (kind, name) => {
  for (const entry of (await peer.getStats()).values())
    if (entry.type === kind && name in entry) return entry[name];
  return 0;
};
globalThis.ready = true;
</script>"""


@asynccontextmanager
async def client_page() -> AsyncIterator[str]:
    """The npm package whip-whep on a page of its own origin; gives its URL."""
    app = web.Application()

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=_PAGE, content_type="text/html")

    app.router.add_get("/", page)
    app.router.add_static("/", CLIENTS)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
