"""A foreign server of the Open Inference Protocol: NVIDIA's Triton, as the package nvidia-pytriton ships it.

The package's own Python side is not used (it wants numpy 1); only its program, its Python back end and their
libraries. It serves tests/analytics/assets/tiny_yolox.onnx twice: ``yolox`` at any size, ``yolox-64`` at the
64x64 that the file declares. Input ``images`` FP32, output ``output`` FP32, as in YOLOX's exports.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from analytics.yolox_tiles import free_sides
from tests.analytics.clips import ASSETS

START_S = 60.0
_CONFIG = """
backend: "python"
max_batch_size: 0
input [{{ name: "images" data_type: TYPE_FP32 dims: [1, 3, {side}, {side}] }}]
output [{{ name: "output" data_type: TYPE_FP32 dims: [1, -1, 7] }}]
"""
# DLPack rather than as_numpy(): Triton's back end was built for numpy 1
_MODEL = """
import sys
sys.path[:0] = {path!r}
import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.session = onnxruntime.InferenceSession({model!r}, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        answers = []
        for request in requests:
            images = np.from_dlpack(pb_utils.get_input_tensor_by_name(request, "images"))
            (raw,) = self.session.run(None, {{"images": images}})
            raw[..., 4:] = raw[..., 4:].clip(0, 1)  # the exports end in a sigmoid
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("output", raw)]))
        return answers
"""


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """Where it listens: ``HOST:PORT``."""

    http: str
    grpc: str


def installed() -> Path | None:
    """The folder with the server's program, if it is here for this machine."""
    found = importlib.util.find_spec("pytriton")
    if found is None or found.origin is None or platform.machine() != "x86_64":
        return None
    folder = Path(found.origin).parent / "tritonserver"
    usable = (folder / "bin" / "tritonserver").is_file() and _stubs(folder).is_dir()
    return folder if usable else None


def _stubs(folder: Path) -> Path:
    """The back end's program for this Python."""
    return folder / "python_backend_stubs" / f"{sys.version_info.major}.{sys.version_info.minor}"


@contextmanager
def triton(folder: Path) -> Iterator[ForeignServer]:
    """Run it with its files in ``folder``; skips where it is not installed."""
    program = installed()
    if program is None:
        pytest.skip("required: pip install --no-deps nvidia-pytriton (x86_64)")
    _write_models(folder / "models")
    back_end = folder / "backends" / "python"
    shutil.copytree(program / "backends" / "python", back_end)
    for path in _stubs(program).iterdir():
        shutil.copy(path, back_end / path.name)
    server = ForeignServer(*(f"127.0.0.1:{_free_port()}" for _ in range(2)))
    with (folder / "triton.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program / "bin" / "tritonserver",
                f"--model-repository={folder / 'models'}",
                f"--backend-directory={folder / 'backends'}",
                "--http-address=127.0.0.1",
                f"--http-port={server.http.partition(':')[2]}",
                "--grpc-address=127.0.0.1",
                f"--grpc-port={server.grpc.partition(':')[2]}",
                "--allow-metrics=false",
                "--http-thread-count=2",
                "--exit-timeout-secs=3",
            ],
            env=os.environ | {"LD_LIBRARY_PATH": str(program.parents[1] / "nvidia_pytriton.libs")},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait_ready(process, server, folder / "triton.log")
            yield server
        finally:
            _end(process)


def _write_models(folder: Path) -> None:
    for name, side, data in (
        ("yolox", -1, free_sides(ASSETS / "tiny_yolox.onnx")),
        ("yolox-64", 64, (ASSETS / "tiny_yolox.onnx").read_bytes()),
    ):
        place = folder / name / "1"
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(data)
        (folder / name / "config.pbtxt").write_text(_CONFIG.format(side=side))
        path = [sysconfig.get_paths()["platlib"]]
        (place / "model.py").write_text(_MODEL.format(path=path, model=str(place / "model.onnx")))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_ready(process: subprocess.Popen[bytes], server: ForeignServer, log: Path) -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s and process.poll() is None:
        with (
            suppress(OSError),  # nobody listens yet, or 400: not ready
            urllib.request.urlopen(f"http://{server.http}/v2/health/ready", timeout=2),
        ):
            return
        time.sleep(0.2)
    pytest.fail(f"Triton did not become ready:\n{log.read_text(errors='replace')[-3000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
