"""``veilcam elf replay``, and the pool with real worker processes that are killed, frozen and left alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import av
import pytest

from analytics.pool import EdgeWorkers, Pool, PoolOptions, PoolResult, WorkerAddress
from base.errors import PeerError
from tests.analytics.clips import TINY_YOLOX
from tests.support.edge_worker import frame_of, moving
from tests.veilcam.cli import veilcam_inside
from tests.veilcam.conftest import Studio
from veilcam.edge.clip import is_protected, protected_frames
from veilcam.edge.processes import ProcessOptions, WorkerProcess, WorkerProcesses

DEADLINE_S = 1.5
OPTIONS = ProcessOptions(TINY_YOLOX)


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerProcesses]:
    """Three processes; tests may kill what they start again."""
    with WorkerProcesses([OPTIONS] * 3) as started:
        yield started


@asynccontextmanager
async def pool_of(workers: WorkerProcesses) -> AsyncIterator[Pool]:
    shared = EdgeWorkers([WorkerAddress(url, f"w{n}") for n, url in enumerate(workers.urls)])
    pool = Pool(shared, PoolOptions(deadline_s=DEADLINE_S, min_score=0.6))
    await pool.start(wait_s=30)
    try:
        assert len(shared.available()) == 3
        yield pool
    finally:
        await pool.close()
        await shared.close()


async def stream(pool: Pool, first: int, count: int) -> list[PoolResult]:
    return [await pool.detect(frame_of(moving(step)), step) for step in range(first, first + count)]


def is_settled(results: list[PoolResult]) -> bool:
    """The last three frames passed without trouble."""
    return all(result.late == result.failed == result.missing == 0 for result in results[-3:])


async def test_a_killed_worker_delays_no_frame_beyond_twice_its_deadline(workers: WorkerProcesses) -> None:
    async with pool_of(workers) as pool:
        await stream(pool, 0, 5)
        os.kill(workers.processes[2].pid, signal.SIGKILL)
        killed_s = time.monotonic()
        results = await stream(pool, 5, 10)
        assert max(result.latency_s for result in results) <= 2 * DEADLINE_S
        assert is_settled(results)
        assert results[-1].latency_s < DEADLINE_S
        assert pool.states()[2].state != "closed"
        assert not any(tile.worker == "w2" for tile in results[-1].plan.tiles)
        assert time.monotonic() - killed_s < 30
    workers.processes[2].stop()
    workers.processes[2] = WorkerProcess(OPTIONS)
    workers.processes[2].wait()


async def test_a_frozen_worker_is_passed_over_and_comes_back_when_it_thaws(workers: WorkerProcesses) -> None:
    async with pool_of(workers) as pool:
        await stream(pool, 0, 5)
        frozen = workers.processes[0].pid
        os.kill(frozen, signal.SIGSTOP)
        try:
            results = await stream(pool, 5, 12)
        finally:
            os.kill(frozen, signal.SIGCONT)
        assert max(result.latency_s for result in results) <= 2 * DEADLINE_S
        assert is_settled(results)
        async with asyncio.timeout(40):
            while not pool.workers.all[0].available:
                await asyncio.sleep(0.1)


def test_a_worker_that_cannot_start_is_told_of() -> None:
    process = WorkerProcess(ProcessOptions("no-such-detector"))
    with pytest.raises(PeerError, match="did not become ready"):
        process.wait()


def test_check_says_which_workers_can_be_used(workers: WorkerProcesses, tmp_path: Path) -> None:
    good, gone = workers.urls[1], "http://127.0.0.1:9"
    ended = veilcam_inside("elf", "check", good, "--json", cwd=tmp_path)
    assert ended.exit_code == 0
    (worker,) = ended.json["workers"]
    assert worker["model"] == "yolox:tiny_yolox.onnx"
    assert worker["speed_pixels_per_s"] > 1000
    (tmp_path / "gate.yaml").write_text(
        f"source: synthetic\ncamera: a\nrecipients: [b]\nworkers: [{good}, {gone}]\n"
    )
    ended = veilcam_inside("elf", "check", "--config", "gate.yaml", "--wait", "3", cwd=tmp_path)
    assert ended.exit_code == 1
    assert "127.0.0.1:9: NOT usable: cannot be reached" in ended.out
    assert "Mpixel/s" in ended.out
    assert veilcam_inside("elf", "check", cwd=tmp_path).exit_code == 2


def test_a_clip_becomes_a_video_a_time_line_and_figures(studio: Studio, tmp_path: Path) -> None:
    clip = studio.folder / "protected.mp4"
    ended = veilcam_inside(
        *("elf", "replay", clip, "--workers", "2", "--detector", "hog", "--frames", "5"),
        *("--out", tmp_path / "seen", "--deadline", "20000", "--json"),
        cwd=tmp_path,
    )
    assert ended.exit_code == 0, ended.err
    summary = json.loads(ended.out)
    assert summary["frames"] == 5
    assert summary["latency_ms"]["median"] > 0
    assert summary["tiles"]["answered"] >= 5
    assert summary["sent_bytes"] > 1000
    assert [worker["name"] for worker in summary["workers"]] == ["worker-1", "worker-2"]
    with av.open(str(tmp_path / "seen.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 5
    svg = ET.parse(tmp_path / "seen.svg").getroot()  # noqa: S314  # our own
    texts = [element.text for element in svg.iter() if element.text]
    assert {"worker-1", "worker-2"} <= set(texts)
    assert len([element for element in svg.iter() if element.tag.endswith("rect")]) > 5


def test_what_exists_is_kept_and_contradictions_are_refused(studio: Studio, tmp_path: Path) -> None:
    clip = studio.folder / "protected.mp4"
    (tmp_path / "seen.mp4").write_bytes(b"mine")
    ended = veilcam_inside("elf", "replay", clip, "-o", tmp_path / "seen", cwd=tmp_path)
    assert ended.exit_code == 2
    assert (tmp_path / "seen.mp4").read_bytes() == b"mine"
    for wrong in (
        ["--workers", "2", "--worker", "http://127.0.0.1:9"],
        ["--worker", "ftp://edge"],
        ["--look", "local"],
    ):
        assert veilcam_inside("elf", "replay", clip, *wrong, cwd=tmp_path).exit_code == 2
    away = veilcam_inside("elf", "replay", clip, "--worker", "http://127.0.0.1:9", cwd=tmp_path)
    assert away.exit_code == 1
    assert "no worker can be used" in away.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen.mp4"]


def test_a_clip_that_is_not_protected_is_protected_before_anything_is_sent(
    studio: Studio, tmp_path: Path
) -> None:
    protected, clear = tmp_path / "protected.mp4", studio.folder / "clip.mp4"
    keys = ("-r", "keys/custodian.recipient", "-c", "keys/gate.camera")
    assert studio.call("protect", clear, "-o", protected, *keys, "--pixels", "off").exit_code == 0
    assert is_protected(protected)
    assert not is_protected(clear)
    (ours, _), (drawn, _) = next(protected_frames(protected)), next(protected_frames(clear))
    assert (ours.width, ours.height) == (drawn.width, drawn.height)
    # both are what the protector drew: the file's is only coded, so they differ by what coding costs
    assert abs(ours.luma_hw.astype(float) - drawn.luma_hw).mean() < 4
