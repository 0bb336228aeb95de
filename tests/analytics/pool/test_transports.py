"""The pool's connections against real workers: REST and gRPC, in the open and over mutual TLS."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from analytics.detector import DetectorConfig, load_detector
from analytics.elf.types import Tile
from analytics.oip.messages import InferRequest, InferResponse, ModelMetadata, TensorSpec
from analytics.oip.tensors import Tensor
from analytics.pool import EdgeWorkers, WorkerAddress
from analytics.pool.connect import open_transport
from analytics.pool.tiles import CutTile
from analytics.pool.transport import Request
from analytics.pool.yolox_transport import YoloxSpec, YoloxTransport
from analytics.worker.options import TlsFiles
from analytics.worker.server import Worker
from base.access import AccessToken
from base.errors import Malformed, PeerError, UsageError
from tests.analytics.clips import TINY_YOLOX, red_square
from tests.analytics.serving_worker import serving_worker

TOKEN = "correct-horse-battery"
EXTENSIONS = "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n"
PICTURE = red_square(32, 16, 32, (96, 64))
TILE = CutTile(Tile(0, 0, 96, 64, "w"), PICTURE)
REQUEST = Request(TILE, 95, 20.0, "gate", 0.9)


def addresses(worker: Worker, secure: bool = False) -> dict[str, WorkerAddress]:
    s = "s" if secure else ""
    host = urlsplit(worker.url).netloc
    return {
        "rest": WorkerAddress(f"http{s}://{host}", "rest"),
        "grpc": WorkerAddress(f"grpc{s}://{worker.grpc_address}", "grpc"),
        "rest raw": WorkerAddress(f"http{s}://{host}", "rest-raw", kind="yolox", model="raw"),
        "grpc raw": WorkerAddress(f"grpc{s}://{worker.grpc_address}", "grpc-raw", kind="yolox", model="raw"),
    }


@pytest.mark.parametrize("form", ["rest", "grpc", "rest raw", "grpc raw"])
async def test_every_form_finds_what_the_detector_finds_here(form: str) -> None:
    any_size = "raw" not in form  # the file declares 64x64, which the raw form is served at
    config = DetectorConfig(min_score=0.9, any_size=any_size)
    expected = load_detector(TINY_YOLOX, config).detect(PICTURE)
    async with serving_worker() as worker:
        transport = open_transport(addresses(worker)[form])
        try:
            assert await transport.is_ready()
            served = await transport.describe()
            answer = await transport.infer(REQUEST)
            assert served.names == expected.names
            assert np.allclose(np.sort(answer.found.boxes_xyxy, 0), np.sort(expected.boxes_xyxy, 0), atol=1.0)
            assert transport.body_bytes(REQUEST) > 500
            if any_size:
                assert answer.busy_s is not None
                assert 0 < answer.busy_s < 5
        finally:
            await transport.close()


async def test_a_worker_that_lacks_the_model_says_so() -> None:
    async with serving_worker() as worker:
        for form in ("rest", "grpc"):
            address = dataclasses.replace(addresses(worker)[form], model="other")
            transport = open_transport(address)
            with pytest.raises(PeerError):
                await transport.describe()
            await transport.close()


@pytest.mark.parametrize("form", ["rest", "grpc"])
async def test_mutual_tls_and_a_token_open_a_worker_and_nothing_less_does(
    form: str, certificates: Path
) -> None:
    files = TlsFiles(certificates / "worker.pem", certificates / "worker.key", certificates / "root.pem")
    async with serving_worker(tls=files, token=AccessToken(TOKEN)) as worker:
        plain = dataclasses.replace(addresses(worker, secure=True)[form], ca_file=certificates / "root.pem")
        client = certificates / "client.pem", certificates / "client.key"
        known = dataclasses.replace(plain, cert_file=client[0], key_file=client[1])
        good = dataclasses.replace(known, token=TOKEN)
        for address, opens in (
            (good, True),
            (known, False),
            (dataclasses.replace(plain, token=TOKEN), False),
        ):
            transport = open_transport(address)
            try:
                if opens:
                    await transport.describe()
                    assert len((await transport.infer(REQUEST)).found)
                else:
                    with pytest.raises(PeerError):
                        await transport.describe()
            finally:
                await transport.close()
        assert TOKEN not in repr(good)


@pytest.mark.parametrize("form", ["rest", "grpc"])
async def test_what_is_wrong_with_a_connection_is_said(form: str, certificates: Path) -> None:
    files = TlsFiles(certificates / "worker.pem", certificates / "worker.key")
    async with serving_worker(tls=files, token=AccessToken(TOKEN)) as worker:
        good = dataclasses.replace(addresses(worker, secure=True)[form], ca_file=certificates / "root.pem")
        other = dataclasses.replace(good, ca_file=certificates / "client.pem")  # signed nothing
        closed = WorkerAddress(f"{'http' if form == 'rest' else 'grpc'}://127.0.0.1:1")
        for address, says in (
            (good, "refuses our token"),
            (other, "certificate is not trusted"),
            (closed, "Connection refused"),
        ):
            transport = open_transport(address)
            try:
                with pytest.raises(PeerError, match=says):
                    await transport.describe()
            finally:
                await transport.close()


async def test_a_pool_uses_workers_of_every_form_at_once() -> None:
    async with serving_worker() as worker:
        shared = EdgeWorkers(list(addresses(worker).values()))
        await shared.start(wait_s=30)
        try:
            states = {state.name: (state.state, state.error) for state in shared.states()}
            assert states == {name: ("closed", "") for name in ("rest", "grpc", "rest-raw", "grpc-raw")}, (
                states
            )
        finally:
            await shared.close()


@pytest.mark.parametrize(
    ("shape", "output", "fits"),
    [
        ((1, 3, 416, 416), (1, 3549, 85), True),
        ((1, 3, -1, -1), (1, -1, 85), True),
        ((-1, 3, 640, 640), (-1, 8400, 85), True),
        ((1, 3, 416, 400), (1, 3549, 85), False),
        ((1, 1, 416, 416), (1, 3549, 85), False),
        ((3, 416, 416), (3549, 85), False),
        ((1, 3, 8192, 8192), (1, 10, 85), False),
        ((1, 3, 4096, 4096), (1, 344064, 85), False),  # 192 MiB for every tile
        ((1, 3, 416, 416), (1, 3549, 1 << 62), False),
        ((1, 3, 416, 416), (), False),
    ],
)
def test_only_a_network_like_yolox_is_taken_for_one(
    shape: tuple[int, ...], output: tuple[int, ...], fits: bool
) -> None:
    metadata = ModelMetadata(
        "m", "onnx", (TensorSpec("images", "FP32", shape),), (TensorSpec("output", "FP32", output),)
    )
    if fits:
        assert len(YoloxSpec.read(metadata).names) == 80
    else:
        with pytest.raises(Malformed):
            YoloxSpec.read(metadata)


def test_a_network_without_outputs_is_refused() -> None:
    metadata = ModelMetadata("m", "onnx", (TensorSpec("images", "FP32", (1, 3, 64, 64)),), ())
    with pytest.raises(Malformed, match="one output"):
        YoloxSpec.read(metadata)


class Head:
    """A server whose network answers always the same."""

    def __init__(self, head: np.ndarray) -> None:
        self._head = Tensor.of_array("output", head)

    async def is_ready(self) -> bool:
        return True

    async def metadata(self, model: str) -> ModelMetadata:
        image = TensorSpec("images", "FP32", (1, 3, 64, 64))
        return ModelMetadata(model + "\n", "onnx", (image,), (TensorSpec("output", "FP32", (1, 84, 7)),))

    async def infer(self, request: InferRequest) -> InferResponse:
        return InferResponse(request.model, (self._head,))

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("field", "value"), [(0, 3e38), (1, -1e7), (4, np.inf), (6, np.nan)])
async def test_a_head_that_no_network_gives_is_refused(field: int, value: float) -> None:
    head = np.full((1, 84, 7), 0.98, np.float32)
    transport = YoloxTransport(Head(head), "m")
    assert (await transport.describe()).model == "?"  # no line ends in logs
    assert len((await transport.infer(REQUEST)).found)
    head[0, 3, field] = value
    lying = YoloxTransport(Head(head), "m")
    await lying.describe()
    with pytest.raises(Malformed, match="answer"):
        await lying.infer(REQUEST)


@pytest.mark.parametrize(
    "url", ["edge", "ftp://edge", "http://", "http://a:b@edge", "http://edge:99999", "http://edge/?a=1"]
)
def test_addresses_that_cannot_be_meant_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="worker"):
        WorkerAddress(url)


def test_a_name_is_made_of_host_and_port() -> None:
    assert WorkerAddress("https://edge-1.lan:8443").name == "edge-1.lan:8443"
    assert WorkerAddress("http://[::1]:8500").name.endswith(":8500")
    with pytest.raises(UsageError, match="local"):
        WorkerAddress("http://edge", "local")
