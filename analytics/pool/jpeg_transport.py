"""``veilcam worker``: a JPEG goes there, boxes come back."""

from __future__ import annotations

import hashlib
import itertools
import struct
import time

from analytics.oip.messages import InferRequest, InferResponse, Parameter
from analytics.oip.tensors import Tensor
from analytics.pool.answer import Answer, checked_detections, checked_times
from analytics.pool.channel import Channel
from analytics.pool.tiles import grey_tile
from analytics.pool.transport import Request, Served, model_name
from base.errors import Malformed, PeerError

MAX_CLASSES = 10_000
_HEAD_BYTES = 400  # of a request beside the picture: HTTP and JSON, about
_LENGTH = struct.Struct("<I")
_OUTPUTS = ("BOXES", "SCORES", "CLASSES")


class JpegTransport:
    """See Transport."""

    def __init__(self, channel: Channel, model: str) -> None:
        self._channel = channel
        self._model = model
        self._served: Served | None = None
        self._names_sha256 = ""
        self._numbers = itertools.count(1)

    async def is_ready(self) -> bool:
        """See Transport."""
        return await self._channel.is_ready()

    async def describe(self) -> Served:
        """See Transport."""
        metadata = await self._channel.metadata(self._model)
        text = metadata.parameters.get("names")
        if text is None:  # gRPC has no place for it in the metadata
            request = Request(grey_tile(32, 32), 80, 5.0, "probe", 0.5)
            text = (await self._ask(request, "names", names=True)).parameters.get("names")
        self._served = Served(model_name(metadata), checked_names(text))
        self._names_sha256 = hashlib.sha256("\n".join(self._served.names).encode()).hexdigest()
        return self._served

    def body_bytes(self, request: Request) -> int:
        """See Transport."""
        return len(request.cut.jpeg(request.jpeg_quality)) + _HEAD_BYTES

    async def infer(self, request: Request) -> Answer:
        """See Transport."""
        if self._served is None:
            raise PeerError("asked before it has said what it serves")
        number = str(next(self._numbers))
        began_s = time.monotonic()
        response = await self._ask(request, number)
        return self._checked(response, self._served.names, request, time.monotonic() - began_s)

    async def _ask(self, request: Request, number: str, **more: Parameter) -> InferResponse:
        jpeg = request.cut.jpeg(request.jpeg_quality)
        image = Tensor("IMAGE", "BYTES", (1,), b"".join((_LENGTH.pack(len(jpeg)), jpeg)))
        parameters: dict[str, Parameter] = {
            "timeout": round(request.timeout_s * 1e6),
            "camera": request.camera,
            "min_score": request.min_score,
        }
        response = await self._channel.infer(
            InferRequest(self._model, (image,), id=number, parameters=parameters | more, binary_outputs=True)
        )
        if response.id != number:
            raise Malformed("answer: it belongs to another request")
        return response

    def _checked(
        self, response: InferResponse, names: tuple[str, ...], request: Request, waited_s: float
    ) -> Answer:
        boxes, scores, classes = (response.output(name) for name in _OUTPUTS)
        if boxes is None or scores is None or classes is None:
            message = f"answer: expected the outputs {', '.join(_OUTPUTS)}"
            raise Malformed(message)
        told = response.parameters
        if told.get("names_sha256", self._names_sha256) != self._names_sha256:
            raise Malformed("answer: by a detector with other classes than the worker said")
        height, width = request.cut.image_bgr_hwc.shape[:2]
        found = checked_detections(boxes.array(), scores.array(), classes.array(), names, (width, height))
        queue_s, busy_s = checked_times(
            told.get("queue_us"), (told.get("decode_us"), told.get("inference_us")), waited_s
        )
        return Answer(found, queue_s, busy_s)

    async def close(self) -> None:
        """See Transport."""
        await self._channel.close()


def checked_names(text: object) -> tuple[str, ...]:
    """Class names, one a line.

    Raises:
        Malformed: no text, or names that cannot be meant.
    """
    names = text.split("\n") if isinstance(text, str) else []
    if not 1 <= len(names) <= MAX_CLASSES or len(set(names)) != len(names):
        message = f"model: names: expected 1 to {MAX_CLASSES} different ones, one a line"
        raise Malformed(message)
    if not all(1 <= len(name) <= 64 and name.isprintable() for name in names):
        raise Malformed("model: names: expected 1 to 64 printable characters each")
    return tuple(names)
