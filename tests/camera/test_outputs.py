"""Publishing out, to ffmpeg as the foreign receiver; and what happens when it goes away or hangs."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from base.errors import UsageError
from camera.outputs.libav import LibavOutput
from camera.outputs.target import Protocol, parse_target
from codec.container import read_access_units
from codec.sei import SeiKind, veilcam_kind
from tests.support.evidence import letters_of
from tests.support.stand_in import StandInCamera


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180, gop_s=0.5, sealed_bytes_per_frame=2000) as running:
        yield running


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("text", "protocol", "layer"),
    [
        ("whip://host/live", Protocol.WHIP, "protected"),
        ("whips://host:8443/live", Protocol.WHIP, "protected"),
        ("rtsp://user:secret@host:8554/gate", Protocol.RTSP, "sealed"),
        ("srt://host:9000?streamid=publish:gate", Protocol.SRT, "sealed"),
    ],
)
def test_targets_are_read_and_their_names_hold_no_secret(text: str, protocol: Protocol, layer: str) -> None:
    target = parse_target(text)
    assert (target.protocol, target.layer) == (protocol, layer)
    assert "secret" not in target.name
    assert "secret" not in repr(target)
    assert "streamid" not in target.name


@pytest.mark.parametrize(
    "text", ["http://host/x", "rtsp:///x", "srt://host", "whip://user:pass@host/x", "", "rtsp://host:99999/x"]
)
def test_other_targets_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text)


@contextmanager
def ffmpeg(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        ["ffmpeg", "-hide_banner", "-loglevel", "error", "-y", *arguments], stdin=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(what: str, condition: object, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.parametrize("scheme", ["rtsp", "srt"])
def test_ffmpeg_receives_the_stream_and_what_it_records_verifies(
    scheme: str, camera: StandInCamera, tmp_path: Path
) -> None:
    recording = tmp_path / "received.mkv"
    if scheme == "rtsp":
        url = f"rtsp://127.0.0.1:{free_port()}/gate"
        source = ["-rtsp_flags", "listen", "-i", url]
    else:
        url = f"srt://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
        source = ["-i", f"{url}?mode=listener"]
    with ffmpeg(*source, "-c", "copy", "-t", "4", str(recording)) as receiver:
        output = LibavOutput(parse_target(url), camera.broadcast)
        output.start()
        try:
            assert receiver.wait(30) == 0
        finally:
            assert output.close()
    assert output.state().phase == "stopped"
    with read_access_units(recording) as units:
        kinds = [veilcam_kind(nal) for unit in units for nal in unit.nals]
    assert kinds.count(SeiKind.SEALED) >= 5  # a busy machine gives few pictures
    letters, num_packets = letters_of(recording, camera.camera_key.public, camera.identity)
    whole = letters[1:-1]  # the first and last segment may be cut by the recorder
    assert len(whole) >= 1
    assert set("".join(whole)) == {"A"}
    assert num_packets >= 5


def test_a_server_that_comes_late_and_restarts_is_found_again(camera: StandInCamera, tmp_path: Path) -> None:
    port = free_port()
    url = f"rtsp://127.0.0.1:{port}/gate"
    output = LibavOutput(parse_target(url), camera.broadcast)
    output.start()
    try:
        until("an error is noted", lambda: output.state().error)
        for _ in range(3):
            before = output.state().units
            with ffmpeg("-rtsp_flags", "listen", "-i", url, "-c", "copy", "-f", "null", "-"):
                until("it publishes", lambda n=before: output.state().units > n + 5)
            # A pipe lies between: units count when they are in it, and the loss shows with the next ones.
            lost = output.state().reconnects
            until("the loss is noticed", lambda n=lost: output.state().reconnects > n)
        assert output.state().reconnects >= 3
    finally:
        assert output.close()
    assert camera.broadcast.num_subscribers == 0


def test_a_server_that_accepts_and_never_answers_is_given_up(camera: StandInCamera) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        output = LibavOutput(parse_target(f"rtsp://127.0.0.1:{port}/x"), camera.broadcast, stall_s=1.0)
        output.start()
        try:
            until("the stall is noticed", lambda: output.state().reconnects >= 1)
        finally:
            assert output.close()
