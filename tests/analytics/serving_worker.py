"""Workers for tests: real ones on loopback, with a detector that needs no download."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np

from analytics.oip import InferRequest, ModelMetadata, Tensor, TensorSpec
from analytics.worker.model import Answer, Work
from analytics.worker.options import Served, WorkerOptions
from analytics.worker.server import Worker
from base.access import ListenAddress
from tests.analytics.clips import ASSETS, TINY_YOLOX, Picture

ANY_PORT = ListenAddress("127.0.0.1", 0)
OPTIONS = WorkerOptions(
    listen=ANY_PORT,
    grpc=ANY_PORT,
    detectors=(Served("tiny", TINY_YOLOX),),
    models=(Served("raw", str(ASSETS / "tiny_yolox.onnx")),),
    drain_s=2.0,
)


@asynccontextmanager
async def serving_worker(options: WorkerOptions = OPTIONS, **changes: Any) -> AsyncIterator[Worker]:
    """A worker that is ready; the options may be changed by name."""
    worker = Worker(replace(options, **changes))
    try:
        await worker.start()
        yield worker
    finally:
        await worker.stop()


def jpeg(picture: Picture) -> bytes:
    """At a quality that keeps pure colours."""
    return bytes(cv2.imencode(".png", picture)[1])


@dataclass
class GatedModel:
    """A model that works while its gate is open, and notes the order in which it was asked."""

    name: str = "gated"
    gate: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    done: list[str] = field(default_factory=list)
    fails: bool = False
    is_warm: bool = False

    def metadata(self) -> ModelMetadata:
        return ModelMetadata(
            self.name, "test", (TensorSpec("X", "INT64", (1,)),), (TensorSpec("Y", "INT64", (1,)),)
        )

    def prepare(self, request: InferRequest) -> Work:
        return _Gated(self, request.id)

    def warm_up(self) -> None:
        if self.fails:
            raise RuntimeError("no")
        self.is_warm = True


@dataclass
class _Gated:
    model: GatedModel
    id: str
    pixels: int = 1

    def run(self) -> Answer:
        self.model.begun.set()
        assert self.model.gate.wait(20)
        self.model.done.append(self.id)
        if self.id == "bad":
            raise RuntimeError("a fault of the model")
        return Answer((Tensor.of_array("Y", np.array([1], np.int64)),), {})


def asking(id: str, camera: str = "", timeout_s: float | None = None, model: str = "gated") -> InferRequest:
    parameters: dict[str, Any] = {"camera": camera}
    if timeout_s is not None:
        parameters["timeout"] = int(timeout_s * 1e6)
    return InferRequest(model, (Tensor.of_array("X", np.array([1], np.int64)),), id=id, parameters=parameters)
