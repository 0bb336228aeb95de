"""One ONNX graph ready to run, by the fastest run-time that is installed."""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from base.errors import MissingDependency, UsageError
from models.choice import choice_key, remember, remembered

logger = logging.getLogger(__name__)

Array = npt.NDArray[np.uint8]
Input = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
Outputs = list[Any]
"""Arrays of the types that the graph says."""

BACKEND_VARIABLE = "VEILCAM_BACKEND"
INT8_SUFFIX = "-int8"
_TRIALS = 3


class Session(Protocol):
    """Runs a graph whose inputs are uint8 or float32."""

    name: str

    def run(self, *inputs: Input) -> Outputs:
        """Inputs and outputs in the order of the graph."""


class OnnxRuntimeSession:
    """onnxruntime on the CPU."""

    name = "onnxruntime"

    def __init__(self, graph: bytes, threads: int) -> None:
        import onnxruntime  # noqa: PLC0415  (0.2 s that key tools need not pay)

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Waiting threads must sleep: the encoder needs the cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._inputs = [entry.name for entry in self._session.get_inputs()]

    def run(self, *inputs: Input) -> Outputs:
        """See :class:`Session`."""
        outputs: Outputs = self._session.run(None, dict(zip(self._inputs, inputs, strict=True)))
        return outputs


class OpenVinoSession:
    """OpenVINO on the CPU (uses AMX and bfloat16 where the processor has them)."""

    name = "openvino"

    def __init__(self, graph: bytes, threads: int) -> None:
        import openvino  # noqa: PLC0415  (an extra)

        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        core = openvino.Core()
        self._request = core.compile_model(
            core.read_model(model=graph), "CPU", settings
        ).create_infer_request()

    def run(self, *inputs: Input) -> Outputs:
        """See :class:`Session`."""
        result = self._request.infer(list(inputs), share_inputs=True)
        return [np.array(value) for value in result.values()]


_BACKENDS: dict[str, Callable[[bytes, int], Session]] = {
    "onnxruntime": OnnxRuntimeSession,
    "openvino": OpenVinoSession,
}


def installed_backends() -> list[str]:
    """Names of the run-times that can be imported here, the default first."""
    return [name for name in _BACKENDS if importlib.util.find_spec(name)]


def open_session(
    graph: bytes, trial_inputs: tuple[Array, ...], *, threads: int, int8: bytes | None = None
) -> Session:
    """The fastest installed backend for ``graph`` on inputs like ``trial_inputs``.

    Measured once per machine, graphs, size, threads and library versions (models.choice).
    ``VEILCAM_BACKEND`` names one instead of measuring: ``onnxruntime``, ``openvino``, or one of them with
    ``-int8`` behind it.

    Args:
        graph: in floating point.
        trial_inputs: of the size that will be run.
        threads: for one run.
        int8: the same network in 8-bit integers, if there is one.

    Raises:
        UsageError: the variable names an unknown backend.
        MissingDependency: it names one that is not installed.
    """
    graphs = {"": graph} if int8 is None else {"": graph, INT8_SUFFIX: int8}
    names = [name + suffix for name in installed_backends() for suffix in graphs]
    wanted = os.environ.get(BACKEND_VARIABLE)
    if wanted:
        names = [_named(wanted, has_int8=int8 is not None)]

    def opened(name: str) -> Session:
        backend = name.removesuffix(INT8_SUFFIX)
        session = _BACKENDS[backend](graphs[name.removeprefix(backend)], threads)
        session.name = name
        return session

    if len(names) == 1:
        return opened(names[0])
    shapes = tuple(array.shape for array in trial_inputs)
    key = choice_key(tuple(graphs.values()), shapes, threads)
    known = remembered(key)
    if known in names:
        return opened(known)
    sessions = [opened(name) for name in names]
    seconds = {session.name: _fastest_run(session, trial_inputs) for session in sessions}
    best = min(sessions, key=lambda session: seconds[session.name])
    logger.info(
        "backend %s (%s)", best.name, {name: f"{value * 1e3:.1f} ms" for name, value in seconds.items()}
    )
    remember(key, best.name)
    return best


def _named(wanted: str, *, has_int8: bool) -> str:
    """The candidate that the variable asks for; a graph without an 8-bit twin runs in floating point."""
    backend = wanted.removesuffix(INT8_SUFFIX)
    if backend not in _BACKENDS:
        known = ", ".join(name + suffix for name in _BACKENDS for suffix in ("", INT8_SUFFIX))
        raise UsageError(f"{BACKEND_VARIABLE}: expected one of {known}, got {wanted!r}")
    if backend not in installed_backends():
        raise MissingDependency(f"{BACKEND_VARIABLE}={wanted}: not installed")
    return wanted if has_int8 else backend


def _fastest_run(session: Session, inputs: tuple[Any, ...]) -> float:
    session.run(*inputs)
    times = []
    for _ in range(_TRIALS):
        began = time.perf_counter()
        session.run(*inputs)
        times.append(time.perf_counter() - began)
    return min(times)
