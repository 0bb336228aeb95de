"""The REST form: JSON, and tensors behind it in binary (Triton's binary tensor data extension).

A body is a JSON object, optionally followed by the elements of those tensors that carry the parameter
``binary_data_size``, in their order. The header ``Inference-Header-Content-Length`` then tells the length of
the JSON part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from analytics.oip.json_data import data_of, raw_of
from analytics.oip.json_form import objects_of, parameters_of, parse_document, shape_of, text_of
from analytics.oip.messages import (
    InferRequest,
    InferResponse,
    Limits,
    ModelMetadata,
    RequestedOutput,
    ServerMetadata,
    TensorSpec,
)
from analytics.oip.tensors import Tensor, check_name
from base.errors import LimitExceeded, Malformed, Truncated

HEADER_LENGTH = "Inference-Header-Content-Length"
_SIZE, _WANTED, _ALL_WANTED = "binary_data_size", "binary_data", "binary_data_output"
_DEFAULT = Limits()


def parse_infer_request(
    model: str, version: str, body: bytes, json_length: int | None, limits: Limits = _DEFAULT
) -> InferRequest:
    """The request in the body of ``POST v2/models/MODEL[/versions/VERSION]/infer``.

    Args:
        model: from the path.
        version: from the path, or empty.
        body: whole.
        json_length: the header Inference-Header-Content-Length; None if it is not there.
        limits: what is accepted.

    Raises:
        FormatError: anything that the protocol does not allow.
    """
    document, rest = _split(body, json_length, limits)
    inputs = _tensors(objects_of(document, "inputs", limits.tensors), rest, limits, strict=True)
    if not inputs:
        raise Malformed("inputs: expected at least one")
    outputs = []
    for item in objects_of(document, "outputs", limits.tensors):
        wanted = parameters_of(item, limits, strict=True).get(_WANTED)
        outputs.append(
            RequestedOutput(text_of(item, "name", limits), wanted if isinstance(wanted, bool) else None)
        )
    parameters = parameters_of(document, limits, strict=True)
    binary = parameters.pop(_ALL_WANTED, False)
    return InferRequest(
        model,
        inputs,
        version,
        text_of(document, "id", limits, ""),
        parameters,
        tuple(outputs),
        binary_outputs=binary is True,
    )


def infer_request_body(request: InferRequest, *, binary: bool = True) -> tuple[bytes, int | None]:
    """The body of a request and the length of its JSON part (None: it is JSON alone)."""
    parameters = dict(request.parameters)
    if request.binary_outputs:
        parameters[_ALL_WANTED] = True
    document: dict[str, Any] = {"id": request.id} if request.id else {}
    if parameters:
        document["parameters"] = parameters
    outputs: list[dict[str, Any]] = []
    for output in request.outputs:
        wanted = {} if output.binary is None else {"parameters": {_WANTED: output.binary}}
        outputs.append({"name": output.name} | wanted)
    return _joined(document, "inputs", request.inputs, [binary] * len(request.inputs), outputs)


def parse_infer_response(body: bytes, json_length: int | None, limits: Limits = _DEFAULT) -> InferResponse:
    """The response in a body; parameters that are no plain values are left out.

    Raises:
        FormatError: anything else that the protocol does not allow.
    """
    document, rest = _split(body, json_length, limits)
    outputs = _tensors(objects_of(document, "outputs", limits.tensors), rest, limits, strict=False)
    version = document.get("model_version")
    return InferResponse(
        text_of(document, "model_name", limits, ""),
        outputs,
        version if isinstance(version, str) else "",
        document["id"] if isinstance(document.get("id"), str) else "",
        parameters_of(document, limits, strict=False),
    )


def infer_response_body(response: InferResponse, request: InferRequest) -> tuple[bytes, int | None]:
    """The body of the answer to ``request`` and the length of its JSON part (None: it is JSON alone).

    Raises:
        Malformed: an output that was asked for in JSON and does not fit into it.
    """
    document: dict[str, Any] = {"model_name": response.model}
    if response.version:
        document["model_version"] = response.version
    if response.id:
        document["id"] = response.id
    if response.parameters:
        document["parameters"] = dict(response.parameters)
    binary = [request.wants_binary(tensor.name) for tensor in response.outputs]
    return _joined(document, "outputs", response.outputs, binary, [])


def _split(body: bytes, json_length: int | None, limits: Limits) -> tuple[dict[str, Any], memoryview]:
    if len(body) > limits.body_bytes:
        message = f"body: expected at most {limits.body_bytes} bytes, got {len(body)}"
        raise LimitExceeded(message)
    if json_length is None:
        json_length = len(body)
    if not 0 <= json_length <= len(body):
        message = f"{HEADER_LENGTH}: expected 0 to {len(body)}, got {json_length}"
        raise Malformed(message)
    view = memoryview(body)
    return parse_document(view[:json_length], limits), view[json_length:]


def _tensors(
    items: Sequence[dict[str, Any]], rest: memoryview, limits: Limits, *, strict: bool
) -> tuple[Tensor, ...]:
    found, names = [], set()
    for item in items:
        name, datatype = text_of(item, "name", limits), text_of(item, "datatype", limits)
        check_name(name, "tensor")  # first: the other messages say it as it is
        parameters = parameters_of(item, limits, strict=strict)
        if name in names:
            message = f"{name[:40]!r}: there are two tensors of this name"
            raise Malformed(message)
        names.add(name)
        size = parameters.pop(_SIZE, None)
        if size is None:
            raw: bytes | memoryview = raw_of(name, datatype, item.get("data"))
        else:
            raw, rest = _take(name, size, rest)
        found.append(Tensor(name, datatype, shape_of(item), raw, parameters))
    if len(rest):
        message = f"{len(rest)} bytes behind the last tensor"
        raise Malformed(message)
    return tuple(found)


def _take(name: str, size: object, rest: memoryview) -> tuple[memoryview, memoryview]:
    if type(size) is not int or size < 0:
        message = f"{name[:40]}: {_SIZE}: expected a number of bytes"
        raise Malformed(message)
    if size > len(rest):
        message = f"{name[:40]}: expected {size} bytes, {len(rest)} are left"
        raise Truncated(message)
    return rest[:size], rest[size:]


def _joined(
    document: dict[str, Any],
    key: str,
    tensors: Sequence[Tensor],
    binary: Sequence[bool],
    outputs: Sequence[dict[str, Any]],
) -> tuple[bytes, int | None]:
    parts: list[bytes | memoryview] = []
    items = []
    for tensor, apart in zip(tensors, binary, strict=True):
        item = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        parameters = dict(tensor.parameters)
        if apart:
            parameters[_SIZE] = len(tensor.raw)
            parts.append(tensor.raw)
        else:
            item["data"] = data_of(tensor)
        items.append(item | ({"parameters": parameters} if parameters else {}))
    document[key] = items
    if outputs:
        document["outputs"] = list(outputs)
    head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return (b"".join([head, *parts]), len(head)) if parts else (head, None)


def model_metadata_document(metadata: ModelMetadata) -> dict[str, Any]:
    """The answer to ``GET v2/models/MODEL``."""
    document: dict[str, Any] = {
        "name": metadata.name,
        "versions": list(metadata.versions),
        "platform": metadata.platform,
    }
    for key, specs in (("inputs", metadata.inputs), ("outputs", metadata.outputs)):
        document[key] = [
            {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)} for spec in specs
        ]
    if metadata.parameters:
        document["parameters"] = dict(metadata.parameters)
    return document


def parse_model_metadata(body: bytes, limits: Limits = _DEFAULT) -> ModelMetadata:
    """The answer to ``GET v2/models/MODEL``.

    Raises:
        FormatError: not what the protocol says.
    """
    document = parse_document(body, limits)
    inputs, outputs = (
        tuple(
            TensorSpec(text_of(item, "name", limits), text_of(item, "datatype", limits), shape_of(item))
            for item in objects_of(document, key, limits.tensors)
        )
        for key in ("inputs", "outputs")
    )
    versions = document.get("versions") or []
    if not isinstance(versions, list) or not all(isinstance(item, str) for item in versions):
        raise Malformed("versions: expected a list of strings")
    return ModelMetadata(
        text_of(document, "name", limits),
        text_of(document, "platform", limits, ""),
        inputs,
        outputs,
        tuple(versions[: limits.tensors]),
        parameters_of(document, limits, strict=False),
    )


def server_metadata_document(metadata: ServerMetadata) -> dict[str, Any]:
    """The answer to ``GET v2``."""
    return {"name": metadata.name, "version": metadata.version, "extensions": list(metadata.extensions)}


def parse_server_metadata(body: bytes, limits: Limits = _DEFAULT) -> ServerMetadata:
    """The answer to ``GET v2``.

    Raises:
        FormatError: not what the protocol says.
    """
    document = parse_document(body, limits)
    extensions = document.get("extensions") or []
    if not isinstance(extensions, list) or not all(isinstance(item, str) for item in extensions):
        raise Malformed("extensions: expected a list of strings")
    return ServerMetadata(
        text_of(document, "name", limits),
        text_of(document, "version", limits, ""),
        tuple(extensions[: limits.tensors]),
    )


def error_document(message: str) -> dict[str, str]:
    """The body of every answer that is no success."""
    return {"error": message}


def parse_error(body: bytes, limits: Limits = _DEFAULT) -> str:
    """What an error body says; empty if it is not one."""
    try:
        said = parse_document(body, limits).get("error")
    except (Malformed, LimitExceeded):
        return ""
    return said[:500] if isinstance(said, str) else ""
