"""A worker as its clients see it: tritonclient over REST and gRPC, unchanged."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import aiohttp
import numpy as np
import pytest
import tritonclient.grpc.aio
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException

from analytics import DetectorConfig, load_detector
from analytics.worker.model import names_sha256
from analytics.worker.server import Worker
from tests.analytics.clips import TINY_YOLOX, red_square
from tests.analytics.serving_worker import jpeg, serving_worker

TILE = red_square(64, 32, 32, (150, 90))
FORMS = pytest.mark.parametrize("module", [tritonclient.http.aio, tritonclient.grpc.aio])


def client_of(module: Any, worker: Worker) -> Any:
    address = worker.url.removeprefix("http://") if module is tritonclient.http.aio else worker.grpc_address
    return module.InferenceServerClient(address)


def image_of(module: Any, data: bytes) -> Any:
    given = module.InferInput("IMAGE", [1], "BYTES")
    given.set_data_from_numpy(np.array([data], np.object_))
    return given


def parameters_of(result: Any) -> dict[str, Any]:
    response = result.get_response()
    if isinstance(response, dict):
        return dict(response["parameters"])
    return {
        key: getattr(value, value.WhichOneof("parameter_choice"))
        for key, value in response.parameters.items()
    }


@FORMS
async def test_tritonclient_gets_the_boxes_that_the_detector_finds(module: Any) -> None:
    expected = load_detector(TINY_YOLOX, DetectorConfig(any_size=True)).detect(TILE)
    assert len(expected) > 3
    async with serving_worker() as worker, client_of(module, worker) as client:
        for name in ("detector", "tiny"):
            result = await client.infer(
                name, [image_of(module, jpeg(TILE))], request_id="7", timeout=5_000_000,
                parameters={"camera": "gate"},
            )  # fmt: skip
            assert result.as_numpy("BOXES").tolist() == expected.boxes_xyxy.tolist()
            assert result.as_numpy("SCORES").tolist() == expected.scores.tolist()
            assert result.as_numpy("CLASSES").tolist() == expected.class_ids.tolist()
        said = parameters_of(result)
        assert said.keys() == {"model", "names_sha256", "decode_us", "inference_us", "queue_us"}
        assert said["names_sha256"] == names_sha256(expected.names)


@FORMS
async def test_tritonclient_reads_health_and_metadata(module: Any) -> None:
    async with serving_worker() as worker, client_of(module, worker) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("detector")
        assert await client.is_model_ready("raw", "1")
        server, model = await client.get_server_metadata(), await client.get_model_metadata("raw")
        if module is tritonclient.grpc.aio:
            assert server.extensions == ["binary_tensor_data"]
            assert list(model.inputs[0].shape) == [1, 3, 64, 64]
        else:
            assert server["name"] == "veilcam-worker"
            assert model["inputs"] == [{"name": "images", "datatype": "FP32", "shape": [1, 3, 64, 64]}]


@FORMS
async def test_a_raw_onnx_model_is_served_as_it_is(module: Any) -> None:
    images = np.ascontiguousarray(red_square(8, 16).transpose(2, 0, 1)[None], np.float32)
    async with serving_worker() as worker, client_of(module, worker) as client:
        given = module.InferInput("images", images.shape, "FP32")
        given.set_data_from_numpy(images)
        result = await client.infer("raw", [given], outputs=[module.InferRequestedOutput("output")])
        assert result.as_numpy("output").shape == (1, 84, 7)
        # objectness is blue + green + red by 255, class 1 is red by 255: one where the square is
        assert result.as_numpy("output")[0, 2 * 8 + 1].tolist() == [0.5, 0.5, 0, 0, 1, 0, 1]


@FORMS
async def test_parameters_choose_the_weakest_box_and_ask_for_names(module: Any) -> None:
    grey = np.full((64, 64, 3), 60, np.uint8)  # objectness 180 / 255, class 60 / 255: score 0.166
    async with serving_worker() as worker, client_of(module, worker) as client:
        given = [image_of(module, jpeg(grey))]
        assert (await client.infer("detector", given)).as_numpy("BOXES").shape == (0, 4)
        weak = await client.infer("detector", given, parameters={"min_score": 0.1, "names": True})
        assert len(weak.as_numpy("SCORES")) > 10
        assert parameters_of(weak)["names"] == "class_0\nclass_1"


@FORMS
@pytest.mark.parametrize(
    ("model", "data", "parameters", "says"),
    [
        ("nobody", b"x", {}, "no model 'nobody'"),
        ("detector", b"no picture", {}, "expected JPEG or PNG"),
        ("detector", b"\xff\xd8\xff\xe0", {}, "ends before"),
        ("detector", jpeg(TILE), {"min_score": "high"}, "min_score: expected a number"),
        ("detector", jpeg(TILE), {"camera": "x" * 200}, "camera: expected text"),
        ("raw", b"x", {}, "inputs: expected images"),
    ],
)
async def test_what_is_wrong_is_said(
    module: Any, model: str, data: bytes, parameters: dict[str, Any], says: str
) -> None:
    async with serving_worker() as worker, client_of(module, worker) as client:
        with pytest.raises(InferenceServerException, match=says) as caught:
            await client.infer(model, [image_of(module, data)], parameters=parameters)
        assert caught.value.status() in ("400", "404", "StatusCode.INVALID_ARGUMENT", "StatusCode.NOT_FOUND")


async def test_plain_json_with_the_picture_in_base64_will_do() -> None:
    document = {
        "id": "7",
        "inputs": [
            {
                "name": "IMAGE",
                "datatype": "BYTES",
                "shape": [1],
                "data": [base64.b64encode(jpeg(TILE)).decode()],
            }
        ],
        "outputs": [{"name": "CLASSES"}],
    }
    async with serving_worker() as worker, aiohttp.ClientSession(worker.url) as session:
        async with session.post("/v2/models/detector/versions/1/infer", json=document) as answer:
            assert answer.status == 200
            found = await answer.json()
        async with session.get("/v2/models/detector") as answer:
            metadata = await answer.json()
    assert (found["id"], found["model_name"], found["model_version"]) == ("7", "detector", "1")
    assert [output["name"] for output in found["outputs"]] == ["CLASSES"]
    assert set(found["outputs"][0]["data"]) == {0, 1}
    assert metadata["parameters"]["names"] == "class_0\nclass_1"


async def test_metrics_count_requests_by_outcome() -> None:
    async with serving_worker() as worker, aiohttp.ClientSession(worker.url) as session:
        async with client_of(tritonclient.http.aio, worker) as client:
            await client.infer("detector", [image_of(tritonclient.http.aio, jpeg(TILE))])
            with pytest.raises(InferenceServerException):
                await client.infer("detector", [image_of(tritonclient.http.aio, b"?")])
        async with session.get("/metrics") as answer:
            text = await answer.text()
    assert 'veilcam_worker_requests_total{model="detector",outcome="ok"} 1.0' in text
    assert 'veilcam_worker_requests_total{model="detector",outcome="invalid"} 1.0' in text
    assert "veilcam_worker_ready 1.0" in text
    assert "veilcam_worker_queue_length 0.0" in text


async def test_a_full_queue_says_when_to_come_back() -> None:
    async with serving_worker() as worker, aiohttp.ClientSession(worker.url) as session:
        body = json.dumps(
            {
                "parameters": {"camera": "one"},
                "inputs": [
                    {
                        "name": "IMAGE",
                        "datatype": "BYTES",
                        "shape": [1],
                        "data": [base64.b64encode(jpeg(np.zeros((1500, 1500, 3), np.uint8))).decode()],
                    }
                ],
            }
        )

        async def ask() -> tuple[int, str | None, str | None]:
            async with session.post("/v2/models/detector/infer", data=body) as answer:
                document = await answer.json()
                return answer.status, answer.headers.get("Retry-After"), document.get("code")

        answers = await asyncio.gather(*(ask() for _ in range(24)))
    assert {status for status, _, _ in answers} == {200, 503}
    refused = [(after, code) for status, after, code in answers if status == 503]
    assert all(after is not None and int(after) >= 1 and code == "busy" for after, code in refused)
    assert 8 <= sum(status == 200 for status, _, _ in answers) < 24
