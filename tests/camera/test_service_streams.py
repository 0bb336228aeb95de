"""Two cameras in a row: one publishes over WHIP, the other takes it as its source, protects and shows it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from analytics import SubscribeOptions, subscribe
from base.errors import UsageError
from camera.access import AccessToken, ListenAddress
from camera.http import HttpOptions
from camera.outputs.target import parse_target
from camera.pipeline import Pipeline
from camera.service import CameraService, ServiceOptions
from camera.sources import open_source
from camera.sources.pushed import PushedSource
from codec.access_unit import AccessUnit
from codec.records import SealedMode, SegmentHeader
from codec.segments import view_unit
from keys import CameraKey, EpochRing, Recipient
from tests.support.blur import BlurProtector

LISTEN = ListenAddress("127.0.0.1", 0)
TOKEN = "publisher-token-123456"


def pipeline(name: str, source: str) -> Pipeline:
    key = CameraKey.generate(name)
    recipient, _ = Recipient.generate("custodian")
    return Pipeline(
        open_source(source, realtime=True), BlurProtector(), key, EpochRing(key.camera_id, [recipient])
    )


def test_a_camera_that_nobody_could_push_to_does_not_start() -> None:
    taker = pipeline("taker", "whip:")
    assert isinstance(taker._source, PushedSource)
    with pytest.raises(UsageError, match="nobody could push without a token"):
        CameraService(taker, ServiceOptions("taker", HttpOptions(LISTEN), ingest=taker._source))


async def test_what_one_camera_publishes_is_another_ones_source() -> None:
    second = pipeline("second", "whip:")
    assert isinstance(second._source, PushedSource)
    async with AsyncExitStack() as stack, asyncio.timeout(150):
        taker = CameraService(
            second,
            ServiceOptions(
                "second", HttpOptions(LISTEN, ingest_token=AccessToken(TOKEN)), ingest=second._source
            ),
        )
        await taker.start()
        stack.push_async_callback(taker.stop)
        target = parse_target(taker.url.replace("http:", "whip:") + "whip", token=TOKEN)
        first = pipeline("first", "synthetic:?size=160x120&fps=10")
        giver = CameraService(first, ServiceOptions("first", HttpOptions(LISTEN), publish=(target,)))
        await giver.start()
        stack.push_async_callback(giver.stop)
        while not taker.viewers.is_live:
            await asyncio.sleep(0.1)
        async with subscribe(taker.whep_url, options=SubscribeOptions(layer="sealed")) as stream:
            async for unit in stream:
                assert unit.is_keyframe
                meta = view_unit(AccessUnit.from_annexb(unit.data, 0)).meta
                break
        assert meta is not None
        assert meta.header is not None
        header = SegmentHeader.parse(meta.header)
        assert (header.width, header.height) == (160, 120)
        assert header.sealed_mode is SealedMode.COPY  # what was pushed, bit for bit
        states = giver._streams().publish
        assert states[0].phase == "publishing"
        assert TOKEN not in str(states)
