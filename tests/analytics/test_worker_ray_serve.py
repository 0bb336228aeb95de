"""Workers as replicas of Ray Serve. Ray takes half a minute to start: only with VEILCAM_TEST_RAY_SERVE=1."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.http
from tritonclient.utils import InferenceServerException

from analytics import DetectorConfig, load_detector
from analytics.worker.ray_serve import application
from tests.analytics.clips import TINY_YOLOX, red_square
from tests.analytics.serving_worker import jpeg

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("VEILCAM_TEST_RAY_SERVE") != "1" or importlib.util.find_spec("fastapi") is None,
        reason="VEILCAM_TEST_RAY_SERVE=1 and the extra 'serve'",
    ),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(300),
]

TOKEN = "correct-horse-battery"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
TILE = red_square(64, 32, 32, (150, 90))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ray: Any = importlib.import_module("ray")
    serve: Any = importlib.import_module("ray.serve")
    token = tmp_path_factory.mktemp("ray") / "token"
    token.write_text(TOKEN)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ray.init(num_cpus=4, include_dashboard=False, configure_logging=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        app = application(f"tiny={TINY_YOLOX}", replicas=2, token_file=str(token))
        serve.run(app, route_prefix="/")
        yield f"127.0.0.1:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()


def image() -> tritonclient.http.InferInput:
    given = tritonclient.http.InferInput("IMAGE", [1], "BYTES")
    given.set_data_from_numpy(np.array([jpeg(TILE)], np.object_))
    return given


def test_tritonclient_gets_the_boxes_through_ray(address: str) -> None:
    expected = load_detector(TINY_YOLOX, DetectorConfig(any_size=True)).detect(TILE)
    with tritonclient.http.InferenceServerClient(address) as client:
        assert client.is_server_ready()
        assert client.get_model_metadata("detector", headers=HEADERS)["platform"] == "veilcam"
        result = client.infer("detector", [image()], headers=HEADERS, timeout=20_000_000)
        assert result.as_numpy("BOXES").tolist() == expected.boxes_xyxy.tolist()
        with pytest.raises(InferenceServerException, match="token"):
            client.infer("detector", [image()])


def test_many_requests_are_shared_by_the_replicas(address: str) -> None:
    def ask(_: int) -> int:
        with tritonclient.http.InferenceServerClient(address) as client:
            result = client.infer("detector", [image()], headers=HEADERS, timeout=60_000_000)
            return len(result.as_numpy("SCORES"))

    with ThreadPoolExecutor(4) as callers:
        assert len(set(callers.map(ask, range(24)))) == 1
    asked_of = {}
    for _ in range(20):  # each answer is one replica's own counters
        request = urllib.request.Request(f"http://{address}/metrics", headers=HEADERS)
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310  # http, as written
            text = answer.read().decode()
        (born,) = re.findall(r"^process_start_time_seconds (\S+)", text, re.MULTILINE)
        served = re.findall(r'requests_total\{model="detector",outcome="ok"\} (\S+)', text)
        asked_of[born] = float(served[0]) if served else 0
    assert len(asked_of) == 2
    assert all(count > 0 for count in asked_of.values())
