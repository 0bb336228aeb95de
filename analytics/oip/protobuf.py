"""The protocol's protobuf messages (package ``inference``), described here and built at run time.

Names and numbers are those of the protocol's gRPC description. The messages live in a descriptor pool of
their own: other clients of the protocol (tritonclient, KServe) register the same names in the common pool,
and two of a kind in one pool are an error. Nothing is generated, so no compiler's version has to match.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from base.errors import MissingDependency

SERVICE = "inference.GRPCInferenceService"

# message -> field -> (number, type); "*" before a type: repeated; "map": map<string, InferParameter>.
# A dotted message is nested. Capitalised types are messages.
MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "ServerLiveRequest": {},
    "ServerLiveResponse": {"live": (1, "bool")},
    "ServerReadyRequest": {},
    "ServerReadyResponse": {"ready": (1, "bool")},
    "ModelReadyRequest": {"name": (1, "string"), "version": (2, "string")},
    "ModelReadyResponse": {"ready": (1, "bool")},
    "ServerMetadataRequest": {},
    "ServerMetadataResponse": {
        "name": (1, "string"),
        "version": (2, "string"),
        "extensions": (3, "*string"),
    },
    "ModelMetadataRequest": {"name": (1, "string"), "version": (2, "string")},
    "ModelMetadataResponse": {
        "name": (1, "string"),
        "versions": (2, "*string"),
        "platform": (3, "string"),
        "inputs": (4, "*ModelMetadataResponse.TensorMetadata"),
        "outputs": (5, "*ModelMetadataResponse.TensorMetadata"),
    },
    "ModelMetadataResponse.TensorMetadata": {
        "name": (1, "string"),
        "datatype": (2, "string"),
        "shape": (3, "*int64"),
    },
    "InferParameter": {
        "bool_param": (1, "bool"),
        "int64_param": (2, "int64"),
        "string_param": (3, "string"),
        "double_param": (4, "double"),
        "uint64_param": (5, "uint64"),
    },
    "InferTensorContents": {
        "bool_contents": (1, "*bool"),
        "int_contents": (2, "*int32"),
        "int64_contents": (3, "*int64"),
        "uint_contents": (4, "*uint32"),
        "uint64_contents": (5, "*uint64"),
        "fp32_contents": (6, "*float"),
        "fp64_contents": (7, "*double"),
        "bytes_contents": (8, "*bytes"),
    },
    "ModelInferRequest": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, "map"),
        "inputs": (5, "*ModelInferRequest.InferInputTensor"),
        "outputs": (6, "*ModelInferRequest.InferRequestedOutputTensor"),
        "raw_input_contents": (7, "*bytes"),
    },
    "ModelInferRequest.InferInputTensor": {
        "name": (1, "string"),
        "datatype": (2, "string"),
        "shape": (3, "*int64"),
        "parameters": (4, "map"),
        "contents": (5, "InferTensorContents"),
    },
    "ModelInferRequest.InferRequestedOutputTensor": {"name": (1, "string"), "parameters": (2, "map")},
    "ModelInferResponse": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, "map"),
        "outputs": (5, "*ModelInferResponse.InferOutputTensor"),
        "raw_output_contents": (6, "*bytes"),
    },
    "ModelInferResponse.InferOutputTensor": {
        "name": (1, "string"),
        "datatype": (2, "string"),
        "shape": (3, "*int64"),
        "parameters": (4, "map"),
        "contents": (5, "InferTensorContents"),
    },
}

METHODS: Mapping[str, tuple[str, str]] = {
    name: (f"{name}Request", f"{name}Response")
    for name in ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")
}
"""Method of the service -> its request and response; all are unary."""

_ONEOF = ("InferParameter", "parameter_choice")


@cache
def message_classes() -> Mapping[str, Any]:
    """The message classes by their names in MESSAGES.

    Raises:
        MissingDependency: protobuf (extra ``worker``) is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415
    except ImportError as error:
        message = "gRPC needs the extra 'worker': pip install 'veilcam[worker]'"
        raise MissingDependency(message) from error
    file = descriptor_pb2.FileDescriptorProto(name="veilcam/oip.proto", package="inference", syntax="proto3")
    described: dict[str, Any] = {}
    for name, fields in MESSAGES.items():
        parent, _, own = name.rpartition(".")
        place = described[parent].nested_type if parent else file.message_type
        described[name] = place.add(name=own)
        if name == _ONEOF[0]:
            described[name].oneof_decl.add(name=_ONEOF[1])
        for field, (number, kind) in fields.items():
            _add_field(described[name], name, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"inference.{name}"))
        for name in MESSAGES
    }


def _add_field(described: Any, owner: str, name: str, number: int, kind: str) -> None:  # noqa: ANN401
    field = described.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if kind.startswith("*") or kind == "map" else field.LABEL_OPTIONAL
    kind = kind.lstrip("*")
    if kind == "map":  # a map is a repeated message of key and value, marked as such
        entry = described.nested_type.add(name="ParametersEntry")
        entry.options.map_entry = True
        _add_field(entry, "", "key", 1, "string")
        _add_field(entry, "", "value", 2, "InferParameter")
        kind = f"{owner}.ParametersEntry"
    if kind[0].isupper():
        field.type, field.type_name = field.TYPE_MESSAGE, f".inference.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    if owner == _ONEOF[0]:
        field.oneof_index = 0


def quiet_grpc() -> None:
    """Before grpc is imported: no line in the log for each handshake that a stranger breaks off.

    The environment's own GRPC_VERBOSITY is kept.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
