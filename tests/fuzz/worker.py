"""What a worker and its clients parse of each other."""

from __future__ import annotations

import cv2
import numpy as np

from analytics.oip import InferRequest, InferResponse, Tensor, grpc_form, rest
from analytics.worker.pictures import decode_picture, picture_bytes, picture_size
from tests.fuzz.target import FuzzTarget

_TENSORS = (
    Tensor.of_strings("IMAGE", [b"\xff\xd8\xff"]),
    Tensor.of_array("images", np.zeros((1, 3, 2, 2), np.float32)),
)
_REQUEST = InferRequest("detector", _TENSORS, "1", "7", {"timeout": 5000, "min_score": 0.5, "camera": "gate"})
_RESPONSE = InferResponse(
    "detector", (Tensor.of_array("BOXES", np.zeros((1, 4), np.float32)),), "1", "7", {"queue_us": 5}
)
_SPLIT_BYTES = 2  # before a fuzzed body: the length of its JSON part, 65535 for none


def _with_length(body: bytes, json_length: int | None) -> bytes:
    return (65535 if json_length is None else json_length).to_bytes(_SPLIT_BYTES, "big") + body


def _split(data: bytes) -> tuple[bytes, int | None]:
    length = int.from_bytes(data[:_SPLIT_BYTES], "big")
    return data[_SPLIT_BYTES:], None if length == 65535 else length


def _rest_request(data: bytes) -> None:
    request = rest.parse_infer_request("detector", "1", *_split(data))
    body, json_length = rest.infer_request_body(request)
    assert rest.parse_infer_request("detector", "1", body, json_length) == request


def _rest_response(data: bytes) -> None:
    response = rest.parse_infer_response(*_split(data))
    asked = InferRequest("detector", (), binary_outputs=True)
    assert rest.parse_infer_response(*rest.infer_response_body(response, asked)) == response


def _grpc(data: bytes) -> None:
    request = grpc_form.infer_request(grpc_form.parse("ModelInferRequest", data))
    again = grpc_form.infer_request_message(request).SerializeToString()
    assert grpc_form.infer_request(grpc_form.parse("ModelInferRequest", again)) == request


def _picture(data: bytes) -> None:
    picture = picture_bytes(data)
    width, height = picture_size(picture)
    if width * height <= 1 << 16:  # larger ones cost time, not new paths
        decode_picture(picture, (width, height))


def _pictures() -> tuple[bytes, ...]:
    picture = np.arange(16 * 24 * 3, dtype=np.uint8).reshape(16, 24, 3)
    kinds: tuple[tuple[str, list[int]], ...] = (
        (".jpg", []),
        (".png", []),
        (".jpg", [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]),
    )
    return tuple(bytes(cv2.imencode(ending, picture, options)[1]) for ending, options in kinds)


def worker_targets() -> dict[str, FuzzTarget]:
    """By name."""
    plain = (
        b'{"id":"7","inputs":[{"name":"a","datatype":"FP32","shape":[2],"data":[[1],[2.5]]}],'
        b'"outputs":[{"name":"BOXES","parameters":{"binary_data":true}}]}'
    )
    answered = rest.infer_response_body(_RESPONSE, InferRequest("detector", (), binary_outputs=True))
    message = grpc_form.infer_request_message(_REQUEST).SerializeToString()
    return {
        "oip-request": FuzzTarget(
            "worker",
            _rest_request,
            (_with_length(*rest.infer_request_body(_REQUEST)), _with_length(plain, None)),
        ),
        "oip-response": FuzzTarget("worker", _rest_response, (_with_length(*answered),)),
        "oip-grpc": FuzzTarget("worker", _grpc, (message,)),
        "tile": FuzzTarget("worker", _picture, _pictures()),
    }
