"""``veilcam camera run`` with one line more than the minimum: detection on a worker, both real programs."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.analytics.clips import TINY_YOLOX
from tests.veilcam.cli import command, environment
from tests.veilcam.conftest import Studio
from veilcam.edge.processes import ProcessOptions, WorkerProcess


def state_of(url: str) -> Any:
    with urllib.request.urlopen(url + "api/v1/state", timeout=20) as answer:  # noqa: S310  # http, from the program
        return json.load(answer)


def test_a_camera_detects_on_a_worker_that_one_line_names(studio: Studio, tmp_path: Path) -> None:
    with WorkerProcess(ProcessOptions(TINY_YOLOX)) as worker:
        worker.wait()
        keys = studio.folder / "keys"
        (tmp_path / "gate.yaml").write_text(
            "source: synthetic:?size=320x192&fps=5\n"
            f"camera: {keys / 'gate.camera'}\n"
            f"recipients: [{keys / 'custodian.recipient'}]\n"
            f"workers: [{worker.url}]\n"
        )
        camera = subprocess.Popen(
            command("camera", "run", "--config", tmp_path / "gate.yaml", "--listen", "127.0.0.1:0", "--json"),
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        try:
            assert camera.stdout is not None
            url = json.loads(camera.stdout.readline())["url"]
            until_s = time.monotonic() + 60
            while (edge := state_of(url)["edge"])["frames"] < 3:
                assert time.monotonic() < until_s, edge
                time.sleep(0.2)
            assert [one["state"] for one in edge["workers"]] == ["closed"]
            assert edge["tiles"]["answered"] >= 3
            camera.send_signal(signal.SIGTERM)
            assert camera.wait(60) == 0
        finally:
            camera.kill()
            camera.wait()
            if camera.stdout is not None:
                camera.stdout.close()
