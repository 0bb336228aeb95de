"""A media server that can be killed, a process of its own: ``python -m tests.support.whip_server PORT``.

A WHIP endpoint with the tests' token; it prints ``ready`` when it listens, ``picture`` when the first comes.
"""

from __future__ import annotations

import asyncio
import sys
import threading

from camera.sources.pushed import PushedSource
from camera.webrtc.ingest import WhipIngest
from tests.support.serving import TOKEN, serving
from tests.support.stand_in import StandInCamera


async def serve(port: int) -> None:
    """Until killed."""
    source = PushedSource()

    def take() -> None:
        for number, _ in enumerate(source):
            if number == 0:
                print("picture", flush=True)

    threading.Thread(target=take, daemon=True).start()
    with StandInCamera(width=64, height=96, fps=1) as camera:
        async with serving(camera, ingest_token=TOKEN, parts=[WhipIngest(source)], port=port):
            print("ready", flush=True)
            await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
