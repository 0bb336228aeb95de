"""The Open Inference Protocol, version 2, without input and output: messages, REST and gRPC forms of them.

Spoken by ``veilcam worker``, NVIDIA Triton, KServe, MLServer, OpenVINO Model Server and others. Sources: the
protocol's REST and gRPC descriptions (open-inference-protocol, 2023) and Triton's binary tensor data
extension. ``rest`` needs the standard library and numpy only; ``protobuf`` and ``grpc_form`` the extra
``worker``.
"""

from __future__ import annotations

from analytics.oip.messages import (
    InferRequest,
    InferResponse,
    Limits,
    ModelMetadata,
    Parameter,
    RequestedOutput,
    ServerMetadata,
    TensorSpec,
)
from analytics.oip.tensors import Tensor

__all__ = [
    "InferRequest",
    "InferResponse",
    "Limits",
    "ModelMetadata",
    "Parameter",
    "RequestedOutput",
    "ServerMetadata",
    "Tensor",
    "TensorSpec",
]
