"""ONNX models served as they are: tensors in, tensors out, for any client of the protocol."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.oip import InferRequest, ModelMetadata, Tensor, TensorSpec
from analytics.oip.tensors import NUMPY_TYPES
from analytics.worker.model import VERSION, Answer, Work
from analytics.yolox import open_session
from base.errors import LimitExceeded, Malformed

_TYPES: Mapping[str, str] = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
}
_WARM_SIDE = 64  # for sizes that the model leaves open
_MAX_OUTPUT_BYTES = 64 << 20


class OnnxModel:
    """A model of ONNX Runtime on the CPU, with its own tensors.

    Raises:
        UsageError: no such file.
        Malformed: not a model, or one with tensors that the protocol has no type for.
    """

    def __init__(self, name: str, path: Path, threads: int | None = None) -> None:
        self._name = name
        self._session = open_session(path, threads)
        self._inputs = tuple(_spec(path, value) for value in self._session.get_inputs())
        self._outputs = tuple(_spec(path, value) for value in self._session.get_outputs())

    @property
    def name(self) -> str:
        """By which it is addressed."""
        return self._name

    def metadata(self) -> ModelMetadata:
        """See ServedModel."""
        return ModelMetadata(self._name, "onnxruntime_onnx", self._inputs, self._outputs, (VERSION,))

    def prepare(self, request: InferRequest) -> Work:
        """See ServedModel."""
        given = {tensor.name: tensor for tensor in request.inputs}
        if given.keys() != {spec.name for spec in self._inputs}:
            message = f"inputs: expected {', '.join(spec.name for spec in self._inputs)}"
            raise Malformed(message)
        wanted = [output.name for output in request.outputs] or [spec.name for spec in self._outputs]
        feed = {spec.name: _fitting(spec, given[spec.name]) for spec in self._inputs}
        return _Run(self, feed, list(dict.fromkeys(wanted)))

    def warm_up(self) -> None:
        """See ServedModel."""
        feed = {}
        for spec in self._inputs:
            shape = [1 if i == 0 and size < 0 else _WARM_SIDE if size < 0 else size
                     for i, size in enumerate(spec.shape)]  # fmt: skip
            feed[spec.name] = np.zeros(shape, NUMPY_TYPES[spec.datatype])
        try:
            self.run(feed, [spec.name for spec in self._outputs])
        except Malformed:
            if all(size >= 0 for spec in self._inputs for size in spec.shape):
                raise
            # it has open sizes that are not those of a picture: the first caller warms it up

    def run(self, feed: Mapping[str, npt.NDArray[Any]], wanted: list[str]) -> list[npt.NDArray[Any]]:
        """Outputs by name.

        Raises:
            Malformed: the model does not take these inputs.
        """
        try:
            found: list[npt.NDArray[Any]] = self._session.run(wanted, dict(feed))
        except Exception as error:  # ONNX Runtime's errors share no base but Exception
            message = f"{self._name}: the model does not take these inputs: {str(error)[:200]}"
            raise Malformed(message) from error
        return found


@dataclass(frozen=True, slots=True)
class _Run:
    model: OnnxModel
    feed: Mapping[str, npt.NDArray[Any]]
    wanted: list[str]

    @property
    def pixels(self) -> int:
        return sum(array.size for array in self.feed.values())

    def run(self) -> Answer:
        begun = time.perf_counter_ns()
        arrays = self.model.run(self.feed, self.wanted)
        spent_us = (time.perf_counter_ns() - begun) // 1000
        if sum(array.nbytes for array in arrays) > _MAX_OUTPUT_BYTES:
            message = f"{self.model.name}: the outputs are larger than {_MAX_OUTPUT_BYTES} bytes"
            raise LimitExceeded(message)
        outputs = tuple(Tensor.of_array(name, a) for name, a in zip(self.wanted, arrays, strict=True))
        return Answer(outputs, {"model": self.model.name, "inference_us": spent_us})


def _spec(path: Path, value: Any) -> TensorSpec:  # noqa: ANN401  # ONNX Runtime has no types
    datatype = _TYPES.get(value.type)
    if datatype is None:
        message = f"{path.name}: {value.name}: the protocol has no type for {value.type}"
        raise Malformed(message)
    return TensorSpec(value.name, datatype, tuple(s if isinstance(s, int) else -1 for s in value.shape))


def _fitting(spec: TensorSpec, tensor: Tensor) -> npt.NDArray[Any]:
    fits = len(tensor.shape) == len(spec.shape) and all(
        size in (-1, given) for size, given in zip(spec.shape, tensor.shape, strict=True)
    )
    if tensor.datatype != spec.datatype or not fits or 0 in tensor.shape:
        message = (
            f"{spec.name}: expected {spec.datatype} {list(spec.shape)}, got {tensor.datatype}"
            f" {list(tensor.shape)}"
        )
        raise Malformed(message)
    return tensor.array()
