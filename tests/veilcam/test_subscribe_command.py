"""``veilcam subscribe`` against a real camera: recorded without transcoding, verified, opened."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.evidence import letters_of
from tests.support.serving import TOKEN, serving
from tests.support.stand_in import StandInCamera


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180, gop_s=0.5, sealed_bytes_per_frame=1000) as running:
        yield running


async def run(*arguments: str, token: str = "") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "veilcam", "subscribe", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"VEILCAM_TOKEN": token},
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_what_it_records_verifies_and_opens(camera: StandInCamera, tmp_path: Path) -> None:
    recording = tmp_path / "gate.mp4"
    async with serving(camera, token=TOKEN) as server:
        code, out, err = await run(
            server.whep,
            *("--layer", "sealed", "--record", str(recording), "--seconds", "6", "--json"),
            token=TOKEN,
        )
    assert code == 0, err
    summary = json.loads(out)
    assert summary["pictures"] == summary["signed"] >= 5
    assert summary["files"] == [str(recording)]
    letters, num_packets = letters_of(recording, camera.camera_key.public, camera.identity)
    assert set("".join(letters[:-1])) == {"A"}  # the last segment has no end yet
    assert num_packets >= 5


async def test_a_wrong_token_is_one_line_and_status_1(camera: StandInCamera) -> None:
    async with serving(camera, token=TOKEN) as server:
        code, out, err = await run(server.whep, "--seconds", "5", token="x" * 20)
    assert code == 1
    assert "the token is wrong" in err
    assert "x" * 20 not in err + out


async def test_a_url_that_is_none_is_a_usage_error() -> None:
    code, _, err = await run("gopher://example.com/x")
    assert code == 2
    assert "expected http(s)" in err
