"""The protocol's messages as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analytics.oip.tensors import Parameter, Tensor

__all__ = [
    "InferRequest",
    "InferResponse",
    "Limits",
    "ModelMetadata",
    "Parameter",
    "RequestedOutput",
    "ServerMetadata",
    "TensorSpec",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a parser accepts.

    Attributes:
        body_bytes: of a whole message.
        json_bytes: of its JSON part; tensors above it must travel in binary.
        tensors: inputs, or outputs, of one message.
        parameters: of one message or tensor.
        text_chars: of an id or of a parameter's text.
    """

    body_bytes: int = 64 << 20
    json_bytes: int = 4 << 20
    tensors: int = 64
    parameters: int = 64
    text_chars: int = 65_536


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that the caller asks for.

    Attributes:
        name: of the output.
        binary: REST: its elements after the JSON part rather than in it; None leaves it to the request.
    """

    name: str
    binary: bool | None = None


@dataclass(frozen=True, slots=True)
class InferRequest:
    """One inference request.

    Attributes:
        model: its name.
        version: empty leaves it to the server.
        id: repeated in the response; may be empty.
        parameters: of the request; ``timeout`` is Triton's, in microseconds.
        inputs: tensors.
        outputs: those that are asked for; empty for all.
        binary_outputs: REST: outputs that say nothing else come in binary.
    """

    model: str
    inputs: tuple[Tensor, ...]
    version: str = ""
    id: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: tuple[RequestedOutput, ...] = ()
    binary_outputs: bool = False

    def wants_binary(self, name: str) -> bool:
        """Whether the output ``name`` is to travel in binary (REST)."""
        for output in self.outputs:
            if output.name == name and output.binary is not None:
                return output.binary
        return self.binary_outputs


@dataclass(frozen=True, slots=True)
class InferResponse:
    """The answer to one inference request; fields as in InferRequest."""

    model: str
    outputs: tuple[Tensor, ...]
    version: str = ""
    id: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def output(self, name: str) -> Tensor | None:
        """The output ``name``, if it is there."""
        return next((tensor for tensor in self.outputs if tensor.name == name), None)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a model says about one of its tensors; -1 in ``shape`` is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a server says about a model.

    ``parameters`` travel in REST only, where the protocol allows more fields than it names; the gRPC form
    has no place for them.
    """

    name: str
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    versions: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """What a server says about itself."""

    name: str
    version: str
    extensions: tuple[str, ...] = ()
