"""Lifting a live stream: the ledger first, the original on this machine, and an end that comes by itself."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from analytics.subscribe import SubscribeOptions, subscribe
from base.errors import NoMatchingIdentity, UsageError
from camera.cutter import CutRules
from camera.pipeline import Pipeline, PipelineOptions
from camera.publisher import CodingOptions
from camera.sources import open_source
from codec.unseal import OpenedSegment
from forensics.ledger import Ledger
from forensics.lift import Lift, LiftOptions
from forensics.opening import Purpose
from keys import CameraKey, EpochRing, Identity, Recipient
from keys.source import IdentityKeys
from tests.support.blur import BlurProtector
from tests.support.serving import Serving, serving
from veilcam.cli.lift import parse_duration
from veilcam.lift_server import LiftServer

PURPOSE = Purpose("a child is missing", "2026-117")


@dataclass(frozen=True, slots=True)
class Live:
    """A camera whose original is real video."""

    pipeline: Pipeline
    key: CameraKey
    identity: Identity


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    key = CameraKey.generate("gate")
    recipient, identity = Recipient.generate("custodian")
    pipeline = Pipeline(
        open_source("synthetic:?size=320x180&fps=15", realtime=True),
        BlurProtector(),
        key,
        EpochRing(key.camera_id, [recipient]),
        PipelineOptions(CodingOptions(cut=CutRules(0.6, 0.5, 2.0))),
    )
    with pipeline:
        while pipeline.broadcast.idle_s is None:
            time.sleep(0.05)
        yield Live(pipeline, key, identity)


def entries(ledger: Ledger) -> list[dict[str, object]]:
    lines = ledger.path.read_text().splitlines() if ledger.path.exists() else []
    return [json.loads(line) for line in lines]


def options(seconds: float, live: Live) -> LiftOptions:
    return LiftOptions(seconds, PURPOSE, live.key.public)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


def sealed(server: Serving) -> object:
    return subscribe(server.whep, options=SubscribeOptions(layer="sealed"))


async def test_segments_open_in_memory_and_start_and_end_are_in_the_ledger(
    live: Live, ledger: Ledger
) -> None:
    opened: list[OpenedSegment] = []
    at_first: list[int] = []

    async def take(segment: OpenedSegment) -> None:
        at_first.append(len(entries(ledger)))
        opened.append(segment)

    async with serving(live.pipeline) as server:
        lift = Lift(IdentityKeys([live.identity]), ledger, options(6.0, live))
        lifted = await lift.run(sealed(server), take)  # type: ignore[arg-type]
    assert len(opened) >= 2
    assert all(segment.packets for segment in opened)
    assert lifted.opened == sorted(lifted.opened)
    assert at_first[0] == 1  # nothing was opened before the entry
    start, end = entries(ledger)
    assert "a child is missing" in json.dumps(start)
    assert '"lift"' in json.dumps(start)
    assert live.key.camera_id.hex() in json.dumps(start)
    assert "time over" in json.dumps(end)


async def test_another_key_opens_nothing_and_the_attempt_is_in_the_ledger(live: Live, ledger: Ledger) -> None:
    _, stranger = Recipient.generate("stranger")
    async with serving(live.pipeline) as server:
        lift = Lift(IdentityKeys([stranger]), ledger, options(20.0, live))
        with pytest.raises(NoMatchingIdentity):
            await lift.run(sealed(server), None)  # type: ignore[arg-type]
    (entry,) = entries(ledger)
    assert "refused" in json.dumps(entry)


async def test_what_another_camera_signed_is_not_shown(live: Live, ledger: Ledger) -> None:
    shown: list[OpenedSegment] = []

    async def take(segment: OpenedSegment) -> None:
        shown.append(segment)

    async with serving(live.pipeline) as server:
        other = LiftOptions(4.0, PURPOSE, CameraKey.generate("other").public)
        lifted = await Lift(IdentityKeys([live.identity]), ledger, other).run(sealed(server), take)  # type: ignore[arg-type]
    assert not shown
    assert not lifted.opened
    assert lifted.withheld >= 1


async def test_a_player_gets_the_original_under_the_secret_path_and_nobody_else(
    live: Live, ledger: Ledger, tmp_path: Path
) -> None:
    player = LiftServer()
    await player.start()
    stop = asyncio.Event()
    async with serving(live.pipeline) as server, aiohttp.ClientSession() as http:
        lift = Lift(IdentityKeys([live.identity]), ledger, options(60.0, live))
        running = asyncio.create_task(lift.run(sealed(server), player.show, stop=stop))  # type: ignore[arg-type]
        for path in ("/", "/live.mp4", "/guess/live.mp4"):
            base = player.url.split(player.secret, maxsplit=1)[0].rstrip("/")
            async with http.get(base + path) as answer:
                assert answer.status == 404
        async with http.get(player.url, headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403
        async with http.get(player.url) as answer:
            assert "<video" in await answer.text()
        data = b""
        async with asyncio.timeout(60), http.get(player.url + "live.mp4") as answer:
            async for chunk in answer.content.iter_any():
                data += chunk
                if len(data) > 20_000 and player.num_served >= 3:
                    break
        stop.set()
        await running
        await player.close()
    received = tmp_path / "received.mp4"
    received.write_bytes(data)
    probe = subprocess.run(
        [
            *("ffprobe", "-v", "error", "-count_frames", "-of", "csv=p=0"),
            *("-show_entries", "stream=codec_name,width,nb_read_frames", str(received)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    codec, width, frames = probe.stdout.strip().split(",")[:3]
    assert (codec, width) == ("h264", "320")
    assert int(frames) >= 10
    assert "stopped" in json.dumps(entries(ledger)[-1])


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("1h", 3600)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "10d", "1e9"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


@pytest.mark.parametrize("seconds", [0, -1, 9 * 3600])
def test_a_lift_has_an_end(seconds: float) -> None:
    with pytest.raises(UsageError):
        LiftOptions(seconds, PURPOSE)


def test_a_lift_has_a_reason() -> None:
    with pytest.raises(UsageError, match="reason"):
        LiftOptions(10.0, Purpose("  "))


def test_the_command_needs_a_reason() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "veilcam", "lift", "http://127.0.0.1:1/whep", "-i", "nobody.identity"],
        capture_output=True,
        text=True,
        env=os.environ | {"VEILCAM_LOG": "error"},
        check=False,
    )
    assert done.returncode == 2
    assert "--reason" in done.stderr
