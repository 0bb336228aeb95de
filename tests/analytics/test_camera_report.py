from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from analytics.camera_report import PATH, CameraReport
from base.errors import UsageError
from tests.support.broker import free_port

RESULT = {"frame": 1, "time_s": 0.0, "width": 64, "height": 48, "detections": []}


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


class Camera(ThreadingHTTPServer):
    """An HTTP server that remembers what was posted."""

    daemon_threads = True

    def __init__(self, status: int) -> None:
        self.got: list[tuple[str, str, bytes]] = []
        camera = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                camera.got.append((self.path, self.headers.get("Authorization", ""), body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.thread = Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/whep"


@pytest.fixture
def camera() -> Iterator[Camera]:
    with Camera(204) as running:
        yield running
        running.shutdown()
        running.thread.join()


def test_the_newest_result_is_sent_with_the_token_and_older_ones_are_left_out(camera: Camera) -> None:
    with CameraReport(camera.url, "a-token-of-some-length") as report:
        for frame in range(500):
            report.take({**RESULT, "frame": frame})
        until(lambda: b'"frame":499' in camera.got[-1][2] if camera.got else False)
        until(lambda: report.num_sent == len(camera.got))
    assert len(camera.got) < 10
    assert {(path, token) for path, token, _ in camera.got} == {(PATH, "Bearer a-token-of-some-length")}


def test_a_camera_that_is_away_costs_nothing_but_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    start_s = time.monotonic()
    with CameraReport(f"http://127.0.0.1:{free_port()}/whep", "secret-secret-secret") as report:
        for _ in range(200):
            report.take(RESULT)
        until(lambda: bool(caplog.records))
    assert time.monotonic() - start_s < 20
    assert "does not take detections" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", ["in.mp4", "ftp://h/whep", "http:///whep", "http://h/other"])
def test_only_a_cameras_whep_url_can_be_reported_to(url: str) -> None:
    with pytest.raises(UsageError):
        CameraReport(url)
