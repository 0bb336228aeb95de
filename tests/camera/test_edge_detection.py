"""A camera whose detection runs on edge workers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from analytics.elf.types import Policy
from analytics.pool import PoolOptions, PoolResult, WorkerAddress
from base.errors import UsageError
from camera.edge_detection import EdgeDetection, EdgeOptions
from camera.service import CameraService
from camera.settings import load_settings
from camera.settings_check import find_problems, shown
from tests.support.edge_camera import POOL, edge_camera
from tests.support.edge_worker import ScriptedWorker, frame_of, moving


async def messages(service: CameraService, *kinds: str) -> dict[str, Any]:
    """The first message of each kind of the camera's event stream."""
    found: dict[str, Any] = {}
    async with (
        asyncio.timeout(60),
        aiohttp.ClientSession() as http,
        http.get(service.url + "api/v1/events/stream") as stream,
    ):
        kind = ""
        async for line in stream.content:
            text = line.decode().strip()
            if text.startswith("event: "):
                kind = text[7:]
            elif text.startswith("data: ") and kind in kinds:
                body = json.loads(text[6:])
                if kind != "detections" or body["detections"]:
                    found.setdefault(kind, body)
            if len(found) == len(kinds):
                return found
    return found


async def test_boxes_and_tiles_reach_the_page_and_the_metrics_tell_of_the_workers() -> None:
    async with ScriptedWorker() as a, ScriptedWorker() as b, edge_camera(a.url, b.url) as service:
        found = await messages(service, "detections", "tiles")
        async with aiohttp.ClientSession() as http:
            async with http.get(service.url + "api/v1/state") as answer:
                edge = (await answer.json())["edge"]
            async with http.get(service.url + "metrics") as answer:
                metrics = await answer.text()
        assert found["detections"]["width"] == found["tiles"]["width"] == 320
        assert found["detections"]["detections"][0]["label"] == "shape"
        assert {worker["name"] for worker in found["tiles"]["workers"]} == {"edge-1", "edge-2"}
        left, top, right, bottom = found["tiles"]["tiles"][0]["box"]
        assert 0 <= left < right <= 320
        assert 0 <= top < bottom <= 192
        assert edge["frames"] >= 1
        assert edge["sent_bytes"] > 0
        assert 'veilcam_worker_up{worker="edge-1"} 1.0' in metrics
        assert 'veilcam_worker_requests_total{result="answered",worker="edge-1"}' in metrics
        assert 'veilcam_worker_frame_share{worker="edge-2"}' in metrics
        assert 'veilcam_edge_tiles_total{result="answered"}' in metrics
        assert {request.parameters["camera"] for request in a.tiles + b.tiles} == {"gate"}


async def test_slow_workers_never_slow_the_camera_and_what_is_passed_over_is_counted() -> None:
    async with ScriptedWorker(fixed_s=0.5) as a, edge_camera(a.url, fps=25) as service:
        assert service.edge is not None
        while service.edge.state().frames < 1:
            await asyncio.sleep(0.05)
        first = service.pipeline.stats()
        await asyncio.sleep(4.0)
        last = service.pipeline.stats()
        edge = service.edge.state()
        assert last.frames_out - first.frames_out >= 0.8 * (last.frames_in - first.frames_in)
        assert last.dropped["behind"] == first.dropped["behind"]
        assert 1 <= edge.frames <= 14  # half a second each
        assert edge.skipped > edge.frames


async def test_a_camera_whose_workers_are_away_runs_and_says_so() -> None:
    async with edge_camera("http://127.0.0.1:9") as service:
        async with asyncio.timeout(60):
            while service.pipeline.stats().frames_out < 10:
                await asyncio.sleep(0.05)
        assert service.edge is not None
        (worker,) = service.edge.state().workers
        assert worker.state != "closed"
        assert "cannot be reached" in worker.error
        assert service.pipeline.error is None


async def test_the_newest_frame_is_taken_and_older_ones_are_dropped() -> None:
    results: list[PoolResult] = []
    async with ScriptedWorker(fixed_s=0.1) as a:
        stage = EdgeDetection(EdgeOptions((WorkerAddress(a.url, "a"),), POOL), results.append)
        await stage.start()
        for step in range(40):
            stage.offer(frame_of(moving(step)))
            await asyncio.sleep(0.03)
        await asyncio.sleep(0.5)
        await stage.close()
        stage.offer(frame_of(moving(40)))  # harmless
    indexes = [result.frame_index for result in results]
    assert indexes == sorted(set(indexes))
    assert 2 <= len(indexes) <= 15
    assert indexes[-1] == 40
    assert stage.state().skipped >= 25


MINIMUM = "source: synthetic\ncamera: gate.camera\nrecipients: [a.recipient]\n"


def settings(tmp_path: Path, text: str, **environment: str) -> Any:
    file = tmp_path / "gate.yaml"
    file.write_text(MINIMUM + text)
    return load_settings(file, environment)


def test_a_list_of_addresses_is_a_pool(tmp_path: Path) -> None:
    options = settings(tmp_path, "workers: [http://edge-1:8500, https://edge-2]\n").workers.options("gate")
    assert [address.name for address in options.addresses] == ["edge-1:8500", "edge-2"]
    assert options.pool.camera == "gate"
    assert options.pool.policy.look == "any"
    assert settings(tmp_path, "").workers.options("gate") is None


def test_every_setting_reaches_the_pool(tmp_path: Path) -> None:
    (tmp_path / "edge.token").write_text("a-secret-of-the-edge\n")
    text = """workers:
  pool:
    - {url: "grpc://edge-1:8501", name: one, max_share: 0.5, trusted: true, token_file: edge.token}
    - {url: "http://triton:8000", kind: yolox, model: yolox_nano}
  deadline_ms: 250
  jpeg_quality: 70
  max_share: 0.4
  look: trusted
  local: hog
"""
    loaded = settings(tmp_path, text)
    options = loaded.workers.options("gate")
    one, two = options.addresses
    assert (one.name, one.max_share, one.trusted, one.token) == ("one", 0.5, True, "a-secret-of-the-edge")
    assert (two.kind, two.model) == ("yolox", "yolox_nano")
    assert (options.pool.deadline_s, options.pool.jpeg_quality) == (0.25, 70)
    assert (options.pool.policy.max_share, options.pool.policy.look) == (0.4, "trusted")
    assert options.local == "hog"
    assert "secret-of-the-edge" not in repr(options) + json.dumps(shown(loaded), default=str)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("workers: [ftp://edge]\n", "http"),
        ("workers: [http://user:pass@edge]\n", "http"),
        ("workers: [http://edge, http://edge]\n", "different names"),
        ("workers: {pool: [http://edge], look: local}\n", "workers.local"),
        ("workers: {pool: [http://edge], look: trusted}\n", "trusted"),
        ("workers: {pool: [{url: http://edge, token_file: none.token}]}\n", "none.token"),
        ("workers: {pool: [{url: https://edge, ca_file: none.pem}]}\n", "cannot be read"),
    ],
)
def test_what_cannot_work_is_said_before_the_camera_starts(tmp_path: Path, text: str, says: str) -> None:
    problems = find_problems(settings(tmp_path, text), {})
    assert any(problem.startswith("workers: ") and says in problem for problem in problems)
    assert not any("user:pass" in problem for problem in problems)


def test_an_unknown_key_of_a_worker_is_refused_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pool\.0\.tokenfile: unknown key, did you mean token_file"):
        settings(tmp_path, "workers: {pool: [{url: http://edge, tokenfile: a}]}\n")


def test_a_policy_without_anybody_to_look_is_refused() -> None:
    pool = PoolOptions(policy=Policy(look="local"))
    with pytest.raises(UsageError, match="local"):
        EdgeOptions((WorkerAddress("http://edge"),), pool)
