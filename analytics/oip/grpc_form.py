"""The gRPC form: protobuf messages from and to our values. Needs the extra ``worker``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analytics.oip.messages import (
    InferRequest,
    InferResponse,
    Limits,
    ModelMetadata,
    RequestedOutput,
    ServerMetadata,
    TensorSpec,
)
from analytics.oip.protobuf import message_classes
from analytics.oip.tensors import BYTES, NUMPY_TYPES, Parameter, Tensor, item_size
from base.errors import LimitExceeded, Malformed

_DEFAULT = Limits()
_CONTENTS: Mapping[str, str] = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}


def parse(name: str, data: bytes) -> Any:  # noqa: ANN401  # messages have no types
    """A protobuf message of the protocol.

    Raises:
        Malformed: the bytes are not one.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415  # an extra

    try:
        return message_classes()[name].FromString(data)
    except DecodeError as error:
        message = f"{name}: not such a message"
        raise Malformed(message) from error


def infer_request(message: Any, limits: Limits = _DEFAULT) -> InferRequest:  # noqa: ANN401
    """The value of a ModelInferRequest.

    Raises:
        FormatError: anything that the protocol does not allow.
    """
    inputs = _tensors(message.inputs, message.raw_input_contents, limits)
    if not inputs:
        raise Malformed("inputs: expected at least one")
    if len(message.outputs) > limits.tensors:
        message = f"outputs: expected at most {limits.tensors}, got {len(message.outputs)}"
        raise LimitExceeded(message)
    for text in (message.model_name, message.model_version, message.id):
        if len(text) > limits.text_chars:
            message = f"text: expected at most {limits.text_chars} characters, got {len(text)}"
            raise LimitExceeded(message)
    return InferRequest(
        message.model_name,
        inputs,
        message.model_version,
        message.id,
        _parameters(message.parameters, limits),
        tuple(RequestedOutput(output.name) for output in message.outputs),
    )


def infer_request_message(request: InferRequest) -> Any:  # noqa: ANN401
    """A ModelInferRequest; elements are raw."""
    message = message_classes()["ModelInferRequest"](
        model_name=request.model, model_version=request.version, id=request.id
    )
    _set_parameters(message.parameters, request.parameters)
    for tensor in request.inputs:
        _describe(message.inputs.add(), tensor)
        message.raw_input_contents.append(bytes(tensor.raw))
    for output in request.outputs:
        message.outputs.add(name=output.name)
    return message


def infer_response(message: Any, limits: Limits = _DEFAULT) -> InferResponse:  # noqa: ANN401
    """The value of a ModelInferResponse.

    Raises:
        FormatError: anything that the protocol does not allow.
    """
    return InferResponse(
        message.model_name[: limits.text_chars],
        _tensors(message.outputs, message.raw_output_contents, limits),
        message.model_version[: limits.text_chars],
        message.id[: limits.text_chars],
        _parameters(message.parameters, limits),
    )


def infer_response_message(response: InferResponse) -> Any:  # noqa: ANN401
    """A ModelInferResponse; elements are raw."""
    message = message_classes()["ModelInferResponse"](
        model_name=response.model, model_version=response.version, id=response.id
    )
    _set_parameters(message.parameters, response.parameters)
    for tensor in response.outputs:
        _describe(message.outputs.add(), tensor)
        message.raw_output_contents.append(bytes(tensor.raw))
    return message


def model_metadata(message: Any, limits: Limits = _DEFAULT) -> ModelMetadata:  # noqa: ANN401
    """The value of a ModelMetadataResponse; what is above the limits is left out."""
    inputs, outputs = (
        tuple(
            TensorSpec(spec.name, spec.datatype, tuple(spec.shape[:16])) for spec in specs[: limits.tensors]
        )
        for specs in (message.inputs, message.outputs)
    )
    versions = tuple(message.versions[: limits.tensors])
    return ModelMetadata(message.name, message.platform, inputs, outputs, versions)


def model_metadata_message(metadata: ModelMetadata) -> Any:  # noqa: ANN401
    """A ModelMetadataResponse; ``parameters`` have no place in it."""
    message = message_classes()["ModelMetadataResponse"](
        name=metadata.name, platform=metadata.platform, versions=metadata.versions
    )
    for specs, place in ((metadata.inputs, message.inputs), (metadata.outputs, message.outputs)):
        for spec in specs:
            place.add(name=spec.name, datatype=spec.datatype, shape=spec.shape)
    return message


def server_metadata_message(metadata: ServerMetadata) -> Any:  # noqa: ANN401
    """A ServerMetadataResponse."""
    return message_classes()["ServerMetadataResponse"](
        name=metadata.name, version=metadata.version, extensions=metadata.extensions
    )


def _tensors(items: Sequence[Any], raw: Sequence[bytes], limits: Limits) -> tuple[Tensor, ...]:
    if len(items) > limits.tensors:
        message = f"tensors: expected at most {limits.tensors}, got {len(items)}"
        raise LimitExceeded(message)
    if raw and len(raw) != len(items):
        message = f"raw contents: expected {len(items)}, one for each tensor, got {len(raw)}"
        raise Malformed(message)
    found, names = [], set()
    for index, item in enumerate(items):
        if item.name in names:
            message = f"{item.name[:40]!r}: there are two tensors of this name"
            raise Malformed(message)
        names.add(item.name)
        if raw and item.HasField("contents"):
            message = f"{item.name[:40]!r}: expected either raw contents or contents, got both"
            raise Malformed(message)
        data = raw[index] if raw else _contents(item)
        parameters = _parameters(item.parameters, limits)
        found.append(Tensor(item.name, item.datatype, tuple(item.shape), data, parameters))
    return tuple(found)


def _contents(item: Any) -> bytes:  # noqa: ANN401
    field = _CONTENTS.get(item.datatype)
    if field is None:
        item_size(item.name[:40], item.datatype)  # a type that is not known
        message = f"{item.name[:40]}: {item.datatype} has raw contents only"
        raise Malformed(message)
    elements = getattr(item.contents, field)
    if item.datatype == BYTES:
        return bytes(Tensor.of_strings("contents", elements).raw)
    try:
        return np.array(elements, NUMPY_TYPES[item.datatype]).tobytes()
    except OverflowError as error:
        message = f"{item.name[:40]}: an element is out of the range of {item.datatype}"
        raise Malformed(message) from error


def _parameters(found: Mapping[str, Any], limits: Limits) -> dict[str, Parameter]:
    if len(found) > limits.parameters:
        message = f"parameters: expected at most {limits.parameters}, got {len(found)}"
        raise LimitExceeded(message)
    parameters: dict[str, Parameter] = {}
    for key, value in found.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is None:
            continue
        item = getattr(value, choice)
        if len(key) > limits.text_chars or (isinstance(item, str) and len(item) > limits.text_chars):
            message = f"parameter {key[:40]!r}: expected at most {limits.text_chars} characters"
            raise LimitExceeded(message)
        if isinstance(item, float) and not math.isfinite(item):
            message = f"parameter {key[:40]!r}: expected a finite number"
            raise Malformed(message)
        parameters[key] = item
    return parameters


def _set_parameters(place: Any, parameters: Mapping[str, Parameter]) -> None:  # noqa: ANN401
    for key, value in parameters.items():
        if isinstance(value, bool):
            place[key].bool_param = value
        elif isinstance(value, str):
            place[key].string_param = value
        elif isinstance(value, float):
            place[key].double_param = value
        elif value < 1 << 63:
            place[key].int64_param = value
        else:
            place[key].uint64_param = value


def _describe(place: Any, tensor: Tensor) -> None:  # noqa: ANN401
    place.name, place.datatype = tensor.name, tensor.datatype
    place.shape.extend(tensor.shape)
    _set_parameters(place.parameters, tensor.parameters)
