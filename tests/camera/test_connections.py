"""What holds connections open without asking for anything is cut off, and their number is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from analytics.connections import REFUSAL
from tests.support.serving import Serving, serving
from tests.support.stand_in import StandInCamera

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180) as running:
        yield running


async def _connect(server: Serving) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port)


async def _status(reader: asyncio.StreamReader) -> int:
    return int((await asyncio.wait_for(reader.readline(), 5)).split()[1])


async def _status_with_patience(server: Serving, wanted: int, within_s: float) -> int:
    """The status of a new connection's request, asked until it is ``wanted`` or the time is over."""
    until_s = time.monotonic() + within_s
    while True:
        reader, writer = await _connect(server)
        writer.write(WHOLE)
        status = await _status(reader)
        writer.close()
        if status == wanted or time.monotonic() > until_s:
            return status
        await asyncio.sleep(0.05)


async def test_half_a_header_is_closed_at_the_deadline_even_if_more_keeps_coming(
    camera: StandInCamera,
) -> None:
    async with serving(camera, header_timeout_s=0.5) as server:
        for start in (HALF, WHOLE + HALF, b""):
            reader, writer = await _connect(server)
            began_s = time.monotonic()
            writer.write(start)
            drip = asyncio.create_task(_drip(writer)) if start else None
            with contextlib.suppress(ConnectionResetError):  # closed while a byte was on its way
                await asyncio.wait_for(reader.read(), 5)
            assert 0.4 < time.monotonic() - began_s < 3
            if drip is not None:
                drip.cancel()
            writer.close()


async def _drip(writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        writer.write(b"x")
        await asyncio.sleep(0.1)


async def test_one_connection_too_many_is_refused_until_another_ends(camera: StandInCamera) -> None:
    async with serving(camera, max_connections=20) as server:
        held = [await _connect(server) for _ in range(20)]
        for _, writer in held:
            writer.write(HALF)
        assert await _status_with_patience(server, 503, 0) == 503
        reader, writer = await _connect(server)
        assert await asyncio.wait_for(reader.read(), 5) == REFUSAL
        writer.close()
        held[0][1].write(b"\r\n\r\n")
        assert await _status(held[0][0]) == 200  # who is inside is served
        held[1][1].close()
        assert await _status_with_patience(server, 200, 5) == 200
        for _, writer in held:
            writer.close()


async def test_after_a_flood_the_server_answers_once_the_deadline_has_passed(
    camera: StandInCamera,
) -> None:
    async with serving(camera, max_connections=50, header_timeout_s=0.5) as server:
        flood = await asyncio.gather(*(_connect(server) for _ in range(150)))
        for _, writer in flood:
            writer.write(HALF)
        assert await _status_with_patience(server, 200, 10) == 200
        for _, writer in flood:
            writer.close()
