"""ICE servers (STUN, TURN): for our own side and, as Link headers, for clients (RFC 9725, 4.6)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiortc import RTCConfiguration, RTCIceServer, RTCPeerConnection

from analytics.loopback_ice import allow_loopback
from base.errors import UsageError

_URL = re.compile(r"(stun|stuns|turn|turns):[A-Za-z0-9.\-:\[\]]{1,255}(\?transport=(udp|tcp))?")


@dataclass(frozen=True, slots=True)
class IceServer:
    """One server: ``stun:host:port``, ``turn:host:port?transport=udp`` with user and credential."""

    url: str
    username: str = ""
    credential: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not _URL.fullmatch(self.url):
            message = (
                f"ICE server: expected stun:HOST[:PORT] or turn:HOST[:PORT][?transport=...], got {self.url!r}"
            )
            raise UsageError(message)
        for name, text in (("username", self.username), ("credential", self.credential)):
            if not text.isascii() or not (text.isprintable() or not text) or '"' in text or "\\" in text:
                message = f"ICE server: {name}: expected printable ASCII without quotes"
                raise UsageError(message)
        if self.url.startswith("turn") and not (self.username and self.credential):
            message = f"ICE server {self.url}: TURN needs username and credential"
            raise UsageError(message)

    @property
    def link(self) -> str:
        """The value of its Link header."""
        text = f'<{self.url}>; rel="ice-server"'
        if self.username:
            text += f'; username="{self.username}"; credential="{self.credential}"'
            text += '; credential-type="password"'
        return text


def new_peer(servers: Sequence[IceServer] = ()) -> RTCPeerConnection:
    """A peer connection with these servers only: aiortc's default would ask a public one."""
    allow_loopback()
    return RTCPeerConnection(
        RTCConfiguration(
            iceServers=[
                RTCIceServer(
                    urls=server.url,
                    username=server.username or None,
                    credential=server.credential or None,
                )
                for server in servers
            ]
        )
    )
