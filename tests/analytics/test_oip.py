"""The protocol's two forms, against tritonclient's own encoding and against each other."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from tritonclient.grpc import service_pb2

from analytics.oip import InferRequest, InferResponse, Limits, RequestedOutput, Tensor, grpc_form, rest
from analytics.oip.protobuf import MESSAGES, message_classes
from base.errors import FormatError, LimitExceeded, Malformed, Truncated

TEXT = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=20)
PARAMETERS = st.dictionaries(
    TEXT.filter(lambda key: not key.startswith("binary_data")),
    st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.5),
    max_size=3,
)


@st.composite
def tensors(draw: st.DrawFn, name: str) -> Tensor:
    if draw(st.booleans()):
        return Tensor.of_strings(name, draw(st.lists(st.binary(max_size=8), max_size=4)))
    dtype = draw(st.sampled_from(["?", "u1", "<u2", "<i4", "<i8", "<u8", "<f2", "<f4", "<f8"]))
    shape = draw(st_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
    return Tensor.of_array(name, draw(st_numpy.arrays(np.dtype(dtype), shape)))


@st.composite
def requests(draw: st.DrawFn) -> InferRequest:
    names = draw(st.lists(TEXT, min_size=1, max_size=3, unique=True))
    wanted = draw(st.lists(TEXT, max_size=2, unique=True))
    return InferRequest(
        "m", tuple(draw(tensors(name)) for name in names), "1", draw(TEXT), draw(PARAMETERS),
        tuple(RequestedOutput(name) for name in wanted),
    )  # fmt: skip


@settings(max_examples=40)
@given(requests())
def test_a_request_comes_back_through_both_forms(request: InferRequest) -> None:
    body, json_length = rest.infer_request_body(request)
    assert rest.parse_infer_request("m", "1", body, json_length) == request
    data = grpc_form.infer_request_message(request).SerializeToString()
    assert grpc_form.infer_request(grpc_form.parse("ModelInferRequest", data)) == request


@settings(max_examples=30)
@given(requests(), st.booleans())
def test_a_response_comes_back_through_both_forms(request: InferRequest, binary: bool) -> None:
    response = InferResponse("m", request.inputs, "1", request.id, request.parameters)
    asked = InferRequest("m", request.inputs, binary_outputs=binary)
    data = grpc_form.infer_response_message(response).SerializeToString()
    assert grpc_form.infer_response(grpc_form.parse("ModelInferResponse", data)) == response
    try:
        body, json_length = rest.infer_response_body(response, asked)
    except Malformed as error:  # JSON has no place for them
        assert not binary
        assert "binary" in str(error)
    else:
        assert rest.parse_infer_response(body, json_length) == response


@settings(max_examples=80)
@given(st.binary(max_size=200), st.none() | st.integers(-5, 300))
def test_random_bytes_raise_nothing_but_our_errors(data: bytes, json_length: int | None) -> None:
    for parse in (
        lambda: rest.parse_infer_request("m", "", data, json_length),
        lambda: rest.parse_infer_response(data, json_length),
        lambda: rest.parse_model_metadata(data),
        lambda: rest.parse_server_metadata(data),
        lambda: grpc_form.infer_request(grpc_form.parse("ModelInferRequest", data)),
        lambda: grpc_form.infer_response(grpc_form.parse("ModelInferResponse", data)),
        lambda: grpc_form.model_metadata(grpc_form.parse("ModelMetadataResponse", data)),
    ):
        with contextlib.suppress(FormatError):
            parse()
    rest.parse_error(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


FIELDS = {
    "name": JSON | st.just("a"),
    "datatype": JSON | st.sampled_from(["FP32", "BYTES", "INT8", "BF16"]),
    "shape": JSON | st.lists(st.integers(-1, 3), max_size=3),
    "data": JSON,
    "parameters": JSON | st.fixed_dictionaries({"binary_data_size": st.integers(-1, 9)}),
}
ITEMS = JSON | st.lists(st.fixed_dictionaries({}, optional=FIELDS), max_size=3)
KEYS = ("inputs", "outputs", "id", "parameters", "model_name", "error", "name")


@settings(max_examples=60)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, ITEMS)))
def test_strange_documents_raise_nothing_but_our_errors(document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    for parse in (
        lambda: rest.parse_infer_request("m", "", body, None),
        lambda: rest.parse_infer_response(body, None),
        lambda: rest.parse_model_metadata(body),
    ):
        with contextlib.suppress(FormatError):
            parse()


def test_a_body_that_tritonclient_writes_is_read() -> None:
    image = triton_http.InferInput("IMAGE", [1], "BYTES")
    image.set_data_from_numpy(np.array([b"\xff\xd8jpeg"], np.object_))
    scale = triton_http.InferInput("SCALE", [2], "FP32")
    scale.set_data_from_numpy(np.array([1, 2], np.float32), binary_data=False)
    outputs = [
        triton_http.InferRequestedOutput("BOXES"),
        triton_http.InferRequestedOutput("S", binary_data=False),
    ]
    body, json_length = triton_http.InferenceServerClient.generate_request_body(
        [image, scale], outputs=outputs, request_id="7", timeout=1500
    )
    request = rest.parse_infer_request("detector", "", body, json_length)
    assert request.inputs[0].strings() == (b"\xff\xd8jpeg",)
    assert request.inputs[1].array().tolist() == [1, 2]
    assert request.parameters == {"timeout": 1500}
    assert request.id == "7"
    assert [request.wants_binary(name) for name in ("BOXES", "S", "other")] == [True, False, False]


def test_a_body_that_we_write_is_read_by_tritonclient() -> None:
    boxes = np.arange(8, dtype=np.float32).reshape(2, 4)
    response = InferResponse(
        "m", (Tensor.of_array("BOXES", boxes), Tensor.of_strings("NAMES", [b"a"])), "1", "7"
    )
    asked = InferRequest("m", (), binary_outputs=True)
    body, json_length = rest.infer_response_body(response, asked)
    result = triton_http.InferenceServerClient.parse_response_body(body, header_length=json_length)
    assert result.as_numpy("BOXES").tolist() == boxes.tolist()
    assert result.as_numpy("NAMES").tolist() == [b"a"]


def test_our_protobuf_messages_are_those_of_the_published_description() -> None:
    # field by field against the module that protoc generated for tritonclient
    kinds = {v: k.removeprefix("TYPE_").lower() for k, v in vars(service_pb2.DESCRIPTOR.message_types_by_name[
        "InferParameter"].fields[0].__class__).items() if k.startswith("TYPE_")}  # fmt: skip
    for name in MESSAGES:
        theirs = service_pb2.DESCRIPTOR.message_types_by_name[name.split(".")[0]]
        for part in name.split(".")[1:]:
            theirs = theirs.nested_types_by_name[part]
        ours = message_classes()[name].DESCRIPTOR
        described = [
            [(f.name, f.number, kinds[f.type], f.is_repeated, f.message_type and f.message_type.full_name)
             for f in message.fields]
            for message in (ours, theirs)
        ]  # fmt: skip
        assert described[0] == described[1], name


def test_a_message_that_tritonclient_writes_is_read() -> None:
    message = service_pb2.ModelInferRequest(model_name="detector", id="7")
    message.parameters["timeout"].int64_param = 1500
    message.parameters["min_score"].double_param = 0.25
    image = triton_grpc.InferInput("IMAGE", [1], "BYTES")
    image.set_data_from_numpy(np.array([b"jpeg"], np.object_))
    message.inputs.append(image._get_tensor())
    message.raw_input_contents.append(image._get_content())
    request = grpc_form.infer_request(grpc_form.parse("ModelInferRequest", message.SerializeToString()))
    assert request.inputs[0].strings() == (b"jpeg",)
    assert request.parameters == {"timeout": 1500, "min_score": 0.25}


def test_typed_contents_are_read_like_raw_ones() -> None:
    message = message_classes()["ModelInferRequest"](model_name="m")
    message.inputs.add(name="a", datatype="INT16", shape=[2]).contents.int_contents.extend([1, -2])
    message.inputs.add(name="b", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"xy")
    request = grpc_form.infer_request(message)
    assert request.inputs[0].array().tolist() == [1, -2]
    assert request.inputs[1].strings() == (b"xy",)


def one(datatype: str, shape: list[int], data: list[Any] | None = None, **parameters: int) -> dict[str, Any]:
    return {"name": "a", "datatype": datatype, "shape": shape, "data": data or [], "parameters": parameters}


@pytest.mark.parametrize(
    ("inputs", "error", "says"),
    [
        ([], Malformed, "inputs: expected at least one"),
        ([one("FP32", [2], [1])], Malformed, "expected 8 bytes"),
        ([one("FP32", [1], ["1"])], Malformed, "elements of FP32"),
        ([one("INT8", [1], [200])], Malformed, "range of INT8"),
        ([one("X", [1], [2])], Malformed, "expected a type of"),
        ([one("INT8", [-1])], Malformed, "at least 0"),
        ([one("INT8", [1 << 40])], LimitExceeded, "at most"),
        ([one("INT8", [1], binary_data_size=9)], Truncated, "expected 9 bytes"),
        ([one("INT8", [0])] * 2, Malformed, "two tensors"),
        ([{}] * 65, LimitExceeded, "at most 64"),
    ],
)
def test_what_is_wrong_is_said(inputs: list[dict[str, Any]], error: type[FormatError], says: str) -> None:
    with pytest.raises(error, match=says):
        rest.parse_infer_request("m", "", json.dumps({"inputs": inputs}).encode(), None)


def test_deep_nesting_and_numbers_that_are_no_json_are_refused() -> None:
    for body in (b"[" * 100_000, b'{"a":' * 50_000, b'{"id": NaN}', b'{"a":' + b"9" * 10_000 + b"}"):
        with pytest.raises(FormatError):
            rest.parse_infer_request("m", "", body, None)


def test_a_json_part_above_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(LimitExceeded, match="binary"):
        rest.parse_infer_request("m", "", b" " * 101, None, Limits(json_bytes=100))


def test_nested_data_is_row_major() -> None:
    body = b'{"inputs":[{"name":"a","datatype":"FP32","shape":[2,2],"data":[[1,2],[3,4.5]]}]}'
    (tensor,) = rest.parse_infer_request("m", "", body, None).inputs
    assert tensor.array().tolist() == [[1, 2], [3, 4.5]]


def test_parameters_of_foreign_responses_that_are_no_values_are_left_out() -> None:
    body = json.dumps(
        {"model_name": "m", "parameters": {"a": {"b": 1}, "c": 2, "d": None}, "outputs": []}
    ).encode()
    assert rest.parse_infer_response(body, None).parameters == {"c": 2}


@pytest.mark.parametrize("shape", [[0, 1 << 31, 1 << 31, 1 << 31], [1 << 31, 1 << 31, 1 << 31, 0]])
def test_an_empty_tensor_whose_shape_numpy_refuses_is_refused(shape: list[int]) -> None:
    item = {"name": "BOXES", "datatype": "FP32", "shape": shape, "data": []}
    with pytest.raises(LimitExceeded, match="BOXES"):
        rest.parse_infer_response(json.dumps({"outputs": [item]}).encode(), None)
    assert Tensor("a", "FP32", (0, 4, 1 << 31), b"").array().shape == (0, 4, 1 << 31)


def test_a_name_of_several_lines_is_quoted() -> None:
    item = {"name": "a\nb", "datatype": "?", "shape": [1], "data": [1]}
    with pytest.raises(Malformed) as caught:
        rest.parse_infer_request("m", "", json.dumps({"inputs": [item]}).encode(), None)
    assert "\n" not in str(caught.value)
