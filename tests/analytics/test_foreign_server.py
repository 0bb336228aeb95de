"""Our forms of the protocol against NVIDIA's Triton, and the same client against both servers."""

from __future__ import annotations

import urllib.request

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc
import tritonclient.http

from analytics.elf.types import Policy
from analytics.oip import InferRequest, RequestedOutput, Tensor, rest
from analytics.pool import EdgeWorkers, Pool, PoolOptions, WorkerAddress
from tests.analytics.clips import ASSETS, red_square
from tests.analytics.foreign_server import ForeignServer
from tests.support.edge_worker import frame_of


def network_input(left: int, top: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.ascontiguousarray(red_square(left, top).transpose(2, 0, 1)[None], np.float32)


def expected_output(images: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> object:
    session = onnxruntime.InferenceSession(
        str(ASSETS / "tiny_yolox.onnx"), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"images": images})[0].tolist()


def test_our_rest_form_is_understood_by_triton_and_we_understand_its_answer(
    foreign_triton: ForeignServer,
) -> None:
    images = network_input(8, 16)
    asked = InferRequest(
        "yolox", (Tensor.of_array("images", images),), id="7", outputs=(RequestedOutput("output", True),)
    )
    body, json_length = rest.infer_request_body(asked)
    request = urllib.request.Request(
        f"http://{foreign_triton.http}/v2/models/yolox/infer",
        body,
        {"Content-Type": "application/octet-stream", rest.HEADER_LENGTH: str(json_length)},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310  # http, as written above
        length = answer.headers.get(rest.HEADER_LENGTH)
        response = rest.parse_infer_response(answer.read(), int(length))
    assert (response.model, response.id) == ("yolox", "7")
    output = response.output("output")
    assert output is not None
    assert output.array().tolist() == expected_output(images)


def test_tritons_metadata_are_read(foreign_triton: ForeignServer) -> None:
    with urllib.request.urlopen(f"http://{foreign_triton.http}/v2/models/yolox-64", timeout=20) as answer:
        metadata = rest.parse_model_metadata(answer.read())
    assert (metadata.name, metadata.versions, metadata.platform) == ("yolox-64", ("1",), "python")
    assert [(spec.name, spec.datatype, spec.shape) for spec in metadata.inputs] == [
        ("images", "FP32", (1, 3, 64, 64))
    ]
    with urllib.request.urlopen(f"http://{foreign_triton.http}/v2", timeout=20) as answer:
        server = rest.parse_server_metadata(answer.read())
    assert server.name == "triton"
    assert "binary_tensor_data" in server.extensions


def test_any_size_is_served_at_any_size(foreign_triton: ForeignServer) -> None:
    for module, address in (
        (tritonclient.http, foreign_triton.http),
        (tritonclient.grpc, foreign_triton.grpc),
    ):
        with module.InferenceServerClient(address) as client:
            images = np.zeros((1, 3, 96, 160), np.float32)
            given = module.InferInput("images", images.shape, "FP32")
            given.set_data_from_numpy(images)
            answer = client.infer("yolox", [given]).as_numpy("output")
            assert answer.shape == (1, 12 * 20 + 6 * 10 + 3 * 5, 7)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
@pytest.mark.parametrize("model", ["yolox", "yolox-64"])
async def test_the_cameras_pool_detects_on_triton(
    foreign_triton: ForeignServer, scheme: str, model: str
) -> None:
    address = foreign_triton.http if scheme == "http" else foreign_triton.grpc
    workers = EdgeWorkers([WorkerAddress(f"{scheme}://{address}", "triton", "yolox", model)])
    pool = Pool(workers, PoolOptions(deadline_s=20, policy=Policy(look="any")))
    await pool.start(wait_s=20)
    try:
        assert workers.class_names == ("class_0", "class_1")
        for step in range(3):
            result = await pool.detect(frame_of([(64, 32, 128, 96)], (256, 128)), step)
            assert result.failed == result.late == result.missing == 0
            found = result.detections
            sure = found.boxes_xyxy[found.scores > 0.9]  # white; the grey of a tile's padding is 0.6
            assert len(sure) > 0
            assert (sure.min(0)[:2] >= [60, 28]).all()
            assert (sure.max(0)[2:] <= [132, 100]).all()
    finally:
        await pool.close()
        await workers.close()
