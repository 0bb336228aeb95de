"""``veilcam worker`` as a program: it says where it listens, serves, and ends in order."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http.aio

from tests.analytics.clips import ASSETS, TINY_YOLOX, red_square
from tests.analytics.serving_worker import jpeg
from tests.support.authority import make_certificate
from tests.veilcam.cli import veilcam_inside

TOKEN = "correct-horse-battery"


class Program:
    """A running ``veilcam worker``."""

    def __init__(self, process: asyncio.subprocess.Process, ready: dict[str, Any]) -> None:
        self.process, self.ready = process, ready

    @classmethod
    async def start(cls, *arguments: str) -> Program:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "veilcam", "worker", "--listen", "127.0.0.1:0", "--json", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"VEILCAM_TOKEN": TOKEN},
        )
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        return cls(process, json.loads(line) if line else {})

    async def end(self, number: signal.Signals) -> tuple[int | None, dict[str, Any], str]:
        self.process.send_signal(number)
        out, err = await asyncio.wait_for(self.process.communicate(), 120)
        return self.process.returncode, json.loads(out), err.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_serves_until_a_signal_and_ends_with_status_0(number: signal.Signals) -> None:
    program = await Program.start(
        "--detector", f"tiny={TINY_YOLOX}", "--model", str(ASSETS / "tiny_yolox.onnx")
    )
    assert program.ready["event"] == "ready"
    assert program.ready["models"] == ["tiny", "tiny_yolox", "detector"]
    address = program.ready["url"].removeprefix("http://")
    async with tritonclient.http.aio.InferenceServerClient(address) as client:
        image = tritonclient.http.aio.InferInput("IMAGE", [1], "BYTES")
        image.set_data_from_numpy(np.array([jpeg(red_square(8, 8))], np.object_))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        result = await client.infer("detector", [image], headers=headers)
        assert len(result.as_numpy("SCORES")) > 3
    code, ended, err = await program.end(number)
    assert (code, ended) == (0, {"event": "ended", "ok": True, "given_up": 0}), err
    assert TOKEN not in err


def answer_of(url: str) -> tuple[int, str]:
    """Status and text that ``url`` answers; a connection refused is an error."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


async def wait_until(holds: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Ask until ``holds`` does, in a thread, since clients run in this loop."""
    async with asyncio.timeout(limit_s):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.01)


async def test_work_that_waits_at_sigterm_is_finished_and_new_work_refused() -> None:
    limits = ("--queue", "8", "--queue-per-camera", "8", "--drain", "90")
    program = await Program.start("--detector", "hog", *limits)
    url = program.ready["url"]
    image = jpeg(np.zeros((1080, 1440, 3), np.uint8))  # about a second for HOG

    async def ask() -> int:
        async with tritonclient.http.aio.InferenceServerClient(url.removeprefix("http://")) as client:
            tile = tritonclient.http.aio.InferInput("IMAGE", [1], "BYTES")
            tile.set_data_from_numpy(np.array([image], np.object_))
            headers = {"Authorization": f"Bearer {TOKEN}"}
            result = await client.infer("detector", [tile], headers=headers, timeout=60_000_000)
            return len(result.as_numpy("SCORES"))

    asked = [asyncio.create_task(ask()) for _ in range(6)]
    waiting = re.compile(r"worker_queue_length [3-5]")
    await wait_until(lambda: waiting.search(answer_of(f"{url}/metrics")[1]) is not None)
    ending = asyncio.create_task(program.end(signal.SIGTERM))
    await wait_until(lambda: answer_of(f"{url}/v2/health/ready")[0] == 503)
    with pytest.raises(tritonclient.utils.InferenceServerException, match="going away"):
        await ask()
    assert await asyncio.gather(*asked) == [0] * 6
    code, ended, err = await ending
    assert (code, ended["given_up"]) == (0, 0), err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "at least one --detector or --model"),
        (("--detector", "hog", "--listen", "0.0.0.0:0"), "--insecure does without"),
        (("--detector", "hog", "--listen", "127.0.0.1:0", "--tls-cert", "a.pem"), "--tls-key"),
        (("--detector", "a=hog", "--detector", "a=hog"), "different names"),
        (("--detector", "detector=hog"), "model name"),
        (("--detector", "yolo9000"), "expected one of yolox"),
        (("--detector", "hog", "--listen", "nowhere"), "listen"),
        (("--model", "none.onnx"), "no such model file"),
        (("--detector", "hog", "--queue", "0"), "--queue"),
    ],
)
def test_what_cannot_be_meant_is_status_2(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    ended = veilcam_inside("worker", *arguments, cwd=tmp_path)
    assert ended.exit_code == 2, ended
    assert says in ended.err


def test_a_port_in_use_is_status_1(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = veilcam_inside("worker", "--detector", "hog", "--listen", f"127.0.0.1:{port}", cwd=tmp_path)
    assert ended.exit_code == 1
    assert "cannot listen" in ended.err


async def test_strangers_who_break_off_handshakes_write_no_lines_into_the_log(tmp_path: Path) -> None:
    make_certificate(tmp_path, "worker", "/CN=worker", "subjectAltName=IP:127.0.0.1\n")
    program = await Program.start(
        *("--detector", "hog", "--grpc", "127.0.0.1:0"),
        *("--tls-cert", str(tmp_path / "worker.pem"), "--tls-key", str(tmp_path / "worker.key")),
    )
    for address in (program.ready["url"].removeprefix("https://"), program.ready["grpc"]):
        host, _, port = address.rpartition(":")
        for _ in range(3):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            await asyncio.wait_for(reader.read(), 15)
            writer.close()
    _, _, err = await program.end(signal.SIGTERM)
    assert err == ""
