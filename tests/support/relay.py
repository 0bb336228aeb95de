"""A bad network in user space: a UDP relay that loses and delays, and a WHEP client that goes through it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from analytics.sdp_exchange import SdpExchange
from analytics.whep_client import ClientOptions, WhepStream

Address = tuple[str, int]


@dataclass(slots=True)
class Weather:
    """What the relay does at this moment, in both directions."""

    loss: float = 0.0
    delay_s: float = 0.0
    seed: int = 1


class UdpRelay:
    """Forwards datagrams between one client and one server on this machine."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.num_forwarded = self.num_lost = 0
        self._random = random.Random(weather.seed)
        self._client: Address | None = None
        self._server: Address | None = None
        self._front: asyncio.DatagramTransport | None = None
        self._back: asyncio.DatagramTransport | None = None

    async def open(self, server: Address) -> int:
        """Listen for the client; returns the port."""
        self._server = server
        loop = asyncio.get_running_loop()
        self._front, _ = await loop.create_datagram_endpoint(
            lambda: _Side(self._from_client), local_addr=("127.0.0.1", 0)
        )
        self._back, _ = await loop.create_datagram_endpoint(
            lambda: _Side(self._from_server), local_addr=("127.0.0.1", 0)
        )
        return int(self._front.get_extra_info("sockname")[1])

    def close(self) -> None:
        for transport in (self._front, self._back):
            if transport is not None:
                transport.close()

    def _from_client(self, data: bytes, address: Address) -> None:
        self._client = address
        self._forward(self._back, data, self._server)

    def _from_server(self, data: bytes, _address: Address) -> None:
        self._forward(self._front, data, self._client)

    def _forward(self, way: asyncio.DatagramTransport | None, data: bytes, to: Address | None) -> None:
        if self._random.random() < self.weather.loss:
            self.num_lost += 1
            return
        self.num_forwarded += 1
        asyncio.get_running_loop().call_later(self.weather.delay_s, _send, way, data, to)


def _send(way: asyncio.DatagramTransport | None, data: bytes, to: Address | None) -> None:
    if way is not None and to is not None and not way.is_closing():
        way.sendto(data, to)


class _Side(asyncio.DatagramProtocol):
    def __init__(self, receive: object) -> None:
        self._receive = receive

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._receive(data, addr)  # type: ignore[operator]


class _RelayedExchange(SdpExchange):
    """Hides both sides' addresses, so that the only way is the relay."""

    def __init__(self, url: str, relay: UdpRelay) -> None:
        super().__init__(url, None)
        self._relay = relay

    async def post(self, offer: str, parameters: Mapping[str, str] | None = None) -> str:
        answer = await super().post(re.sub(r"a=candidate:[^\r\n]*\r?\n", "", offer), parameters)
        found = re.search(r"a=candidate:\S+ 1 udp \d+ (\d+\.\d+\.\d+\.\d+) (\d+) typ host", answer)
        assert found is not None, answer
        port = await self._relay.open((found[1], int(found[2])))
        bare = re.sub(r"a=candidate:[^\r\n]*\r?\n", "", answer)
        line = f"a=candidate:1 1 udp 2130706431 127.0.0.1 {port} typ host\r\n"
        return re.sub(r"(a=ice-pwd:[^\r\n]*\r?\n)", lambda match: match[1] + line, bare, count=1)


@asynccontextmanager
async def relayed(
    url: str, weather: Weather, options: ClientOptions | None = None
) -> AsyncIterator[tuple[WhepStream, UdpRelay]]:
    """A WHEP session through a relay; the weather may be changed while it runs."""
    relay = UdpRelay(weather)
    stream = WhepStream(url, None, options or ClientOptions())
    stream._exchange = _RelayedExchange(url, relay)
    try:
        await stream._open()
        yield stream, relay
    finally:
        await stream.close()
        relay.close()
