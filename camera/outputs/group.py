"""All outputs of one camera, started and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from camera.outputs.libav import LibavOutput
from camera.outputs.target import OutputState, Protocol, PublishTarget
from camera.outputs.whip import WhipOutput
from camera.webrtc.viewers import LiveCamera


class Outputs:
    """Publishes one camera's stream to every target, each at its own pace."""

    def __init__(self, targets: Sequence[PublishTarget], camera: LiveCamera) -> None:
        """Subscribe; nothing is sent before ``start``."""
        self._whip = [WhipOutput(target, camera) for target in targets if target.protocol is Protocol.WHIP]
        self._libav = [
            LibavOutput(target, camera.broadcast)
            for target in targets
            if target.protocol is not Protocol.WHIP
        ]

    def start(self) -> None:
        """Begin to publish; call on the event loop's thread."""
        for whip in self._whip:
            whip.start()
        for libav in self._libav:
            libav.start()

    async def close(self) -> bool:
        """End all; True when nothing is left behind."""
        results = await asyncio.gather(
            *(output.close() for output in self._whip),
            *(asyncio.to_thread(output.close) for output in self._libav),
        )
        return all(results)

    def states(self) -> list[OutputState]:
        """One entry per target."""
        return [whip.state() for whip in self._whip] + [libav.state() for libav in self._libav]
