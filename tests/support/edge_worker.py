"""Edge workers for tests: a detector that finds bright shapes, and a server that can misbehave on purpose."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import cv2
import numpy as np
from aiohttp import web

from analytics.detections import Detections
from analytics.interface import Image
from analytics.oip import rest
from analytics.oip.messages import InferRequest, InferResponse, ModelMetadata, Parameter, TensorSpec
from analytics.oip.tensors import Tensor
from base.frames import ProtectedFrame

NAMES = ("shape", "other")


class ShapeDetector:
    """Finds bright connected areas: exact, and as quick as the tile is small."""

    name = "shapes"
    class_names = NAMES

    def detect(self, frame_bgr_hwc: Image) -> Detections:
        bright = (frame_bgr_hwc.max(2) > 150).astype(np.uint8)
        count, _, stats, _ = cv2.connectedComponentsWithStats(bright)
        boxes = [(x, y, x + w, y + h) for x, y, w, h, area in stats[1:count] if area >= 30]
        return Detections(
            np.array(boxes, np.float32).reshape(-1, 4),
            np.full(len(boxes), 0.9, np.float32),
            np.zeros(len(boxes), np.int64),
            NAMES,
        )


def frame_of(boxes: list[tuple[int, int, int, int]], wh: tuple[int, int] = (640, 384)) -> ProtectedFrame:
    """A dark frame with bright rectangles (left, top, right, bottom)."""
    luma = np.full((wh[1], wh[0]), 40, np.uint8)
    for left, top, right, bottom in boxes:
        luma[top:bottom, left:right] = 220
    half = np.full((wh[1] // 2, wh[0] // 2), 128, np.uint8)
    return ProtectedFrame(luma, half, half.copy(), 0)


def moving(step: int, count: int = 4) -> list[tuple[int, int, int, int]]:
    """Rectangles of 40x60 pixels that move right by 2 pixels per step, inside 640x384."""
    return [
        (40 + 140 * n + 2 * step % 60, 30 + 90 * (n % 3), 80 + 140 * n + 2 * step % 60, 90 + 90 * (n % 3))
        for n in range(count)
    ]


Twist = Callable[[InferRequest, InferResponse], InferResponse | bytes]


@dataclass(eq=False)
class ScriptedWorker:
    """A worker on a real socket. Its behaviour can be changed at any time.

    ``seconds_per_pixel`` and ``fixed_s`` make it take its time; ``twist`` changes its answers; ``delay_s``
    holds them back; ``status`` refuses; ``ready`` is its health.
    """

    seconds_per_pixel: float = 0.0
    fixed_s: float = 0.0
    delay_s: float = 0.0
    twist: Twist | None = None
    status: int = 200
    ready: bool = True
    tell_times: bool = True
    names: tuple[str, ...] = NAMES
    requests: list[InferRequest] = field(default_factory=list)
    port: int = 0

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=32 << 20)
        app.router.add_get("/v2/health/ready", self._health)
        app.router.add_get("/v2/models/detector", self._metadata)
        app.router.add_post("/v2/models/detector/infer", self._infer)
        self._turn = asyncio.Lock()
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """As if the machine had gone."""
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def tiles(self) -> list[InferRequest]:
        """The requests that were no probes."""
        return [request for request in self.requests if request.parameters.get("camera") != "probe"]

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if self.ready else 503)

    async def _metadata(self, _request: web.Request) -> web.Response:
        metadata = ModelMetadata(
            "detector",
            "veilcam",
            (TensorSpec("IMAGE", "BYTES", (1,)),),
            (
                TensorSpec("BOXES", "FP32", (-1, 4)),
                TensorSpec("SCORES", "FP32", (-1,)),
                TensorSpec("CLASSES", "INT64", (-1,)),
            ),
            ("1",),
            {"names": "\n".join(self.names), "detector": "shapes"},
        )
        return web.json_response(rest.model_metadata_document(metadata))

    async def _infer(self, request: web.Request) -> web.Response:
        body = await request.read()
        received_s = time.monotonic()
        asked = rest.parse_infer_request("detector", "", body, int(request.headers[rest.HEADER_LENGTH]))
        self.requests.append(asked)
        if self.status != 200:
            return web.json_response(rest.error_document("no"), status=self.status)
        async with self._turn:
            began_s = time.monotonic()
            image = cv2.imdecode(np.frombuffer(asked.inputs[0].strings()[0], np.uint8), cv2.IMREAD_COLOR)
            assert image is not None
            pixels = image.shape[0] * image.shape[1]
            found = ShapeDetector().detect(np.asarray(image, np.uint8))
            await asyncio.sleep(self.fixed_s + self.seconds_per_pixel * pixels)
            ended_s = time.monotonic()
        await asyncio.sleep(self.delay_s)
        answer = answer_of(found, asked.id, began_s - received_s, ended_s - began_s, times=self.tell_times)
        twisted = answer if self.twist is None else self.twist(asked, answer)
        if isinstance(twisted, bytes):
            return web.Response(body=twisted)
        data, length = rest.infer_response_body(twisted, asked)
        return web.Response(body=data, headers={rest.HEADER_LENGTH: str(length)} if length else {})


def answer_of(
    found: Detections, request_id: str, queue_s: float, busy_s: float, *, times: bool = True
) -> InferResponse:
    """An honest answer."""
    told: dict[str, Parameter] = {
        "queue_us": round(1e6 * queue_s),
        "decode_us": 0,
        "inference_us": round(1e6 * busy_s),
        "names_sha256": hashlib.sha256("\n".join(NAMES).encode()).hexdigest(),
    }
    outputs = (
        Tensor.of_array("BOXES", found.boxes_xyxy),
        Tensor.of_array("SCORES", found.scores),
        Tensor.of_array("CLASSES", found.class_ids),
    )
    return InferResponse("detector", outputs, "1", request_id, told if times else {})
