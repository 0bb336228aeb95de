"""Any server of the Open Inference Protocol with a plain YOLOX network: numbers go, its raw head comes back.

Such a server is Triton, KServe, MLServer or OpenVINO Model Server with an official ONNX export. The tile is
fitted into the network's input here and the head is decoded here, so the server needs no code of ours.
A fixed input costs the same for every tile; an export with free sides costs what the tile has pixels.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analytics.classes import COCO_NAMES
from analytics.detections import Detections
from analytics.interface import DetectorConfig, Image
from analytics.letterbox import Letterbox
from analytics.oip.messages import InferRequest, InferResponse, ModelMetadata
from analytics.oip.tensors import Tensor
from analytics.pool.answer import Answer
from analytics.pool.channel import Channel
from analytics.pool.transport import Request, Served, model_name
from analytics.yolox import BOX_FIELDS, found_in, names_of
from base.errors import Malformed, PeerError
from models.yolox_head import STRIDES, anchor_grid

MAX_SIDE = 4096
MAX_FIXED_SIDE = 1536
"""Of an input that every tile is fitted into: the server names it, and each tile costs its upload."""
MAX_CLASSES = 10_000
MAX_NUMBER = 1e6  # in a head; boxes and scores made of it are finite
_TYPES: dict[str, npt.DTypeLike] = {"FP32": np.float32, "FP16": np.float16, "UINT8": np.uint8}


@dataclass(frozen=True, slots=True)
class YoloxSpec:
    """What the server's metadata says about its network.

    Attributes:
        input_name, output_name: of its tensors.
        datatype: of the input.
        input_wh: its sides; None where any multiple of 32 will do.
        names: of its classes.
    """

    input_name: str
    output_name: str
    datatype: str
    input_wh: tuple[int, int] | None
    names: tuple[str, ...]

    @classmethod
    def read(cls, metadata: ModelMetadata) -> YoloxSpec:
        """Check that it is a YOLOX network.

        Raises:
            Malformed: other tensors than one picture in and one head out.
        """
        sides = (metadata.inputs, metadata.outputs)
        shapes = [specs[0].shape if len(specs) == 1 else () for specs in sides]
        if len(shapes[0]) != 4 or not shapes[1]:
            raise Malformed("model: expected one input 1x3xHxW and one output, as YOLOX has")
        datatype, (_, channels, height, width) = metadata.inputs[0].datatype, shapes[0]
        if channels != 3 or datatype not in _TYPES or len(shapes[1]) != 3:
            raise Malformed("model: expected numbers 1x3xHxW in and 1xANCHORSx(5+CLASSES) out")
        is_free = height == -1 and width == -1
        sides_fit = all(0 < side <= MAX_FIXED_SIDE and side % STRIDES[-1] == 0 for side in (height, width))
        if not is_free and not sides_fit:
            message = f"model: expected input sides that are multiples of 32 up to {MAX_FIXED_SIDE}, or free"
            raise Malformed(message)
        num_classes = shapes[1][2] - BOX_FIELDS if shapes[1][2] > BOX_FIELDS else len(COCO_NAMES)
        if num_classes > MAX_CLASSES:
            message = f"model: expected at most {MAX_CLASSES} classes, got {num_classes}"
            raise Malformed(message)
        return cls(
            metadata.inputs[0].name,
            metadata.outputs[0].name,
            datatype,
            None if is_free else (width, height),
            names_of(num_classes),
        )

    def placed(self, sent_wh: tuple[int, int]) -> Letterbox:
        """Where a tile lies in the network's input."""
        if self.input_wh is not None:
            return Letterbox.fit(sent_wh, self.input_wh)
        stride = STRIDES[-1]
        padded = tuple(min(-(-side // stride) * stride, MAX_SIDE) for side in sent_wh)
        return Letterbox.fit(sent_wh, (padded[0], padded[1]))


class YoloxTransport:
    """See Transport."""

    def __init__(self, channel: Channel, model: str) -> None:
        self._channel = channel
        self._model = model
        self._spec: YoloxSpec | None = None

    async def is_ready(self) -> bool:
        """See Transport."""
        return await self._channel.is_ready()

    async def describe(self) -> Served:
        """See Transport."""
        metadata = await self._channel.metadata(self._model)
        self._spec = YoloxSpec.read(metadata)
        return Served(model_name(metadata), self._spec.names)

    def body_bytes(self, request: Request) -> int:
        """See Transport."""
        if self._spec is None:
            return 0
        box = self._spec.placed(_wh(request.cut.image_bgr_hwc))
        return 3 * box.input_width * box.input_height * np.dtype(_TYPES[self._spec.datatype]).itemsize

    async def infer(self, request: Request) -> Answer:
        """See Transport. Servers of this kind do not tell how long a tile waited and was worked on."""
        spec = self._spec
        if spec is None:
            raise PeerError("asked before it has said what it serves")
        image = request.cut.image_bgr_hwc
        box = spec.placed(_wh(image))
        tensor = await asyncio.to_thread(_tensor, spec, box, image)
        response = await self._channel.infer(InferRequest(self._model, (tensor,), binary_outputs=True))
        found = await asyncio.to_thread(_decoded, spec, box, response, request.min_score)
        return Answer(found)

    async def close(self) -> None:
        """See Transport."""
        await self._channel.close()


def _wh(image_bgr_hwc: Image) -> tuple[int, int]:
    return image_bgr_hwc.shape[1], image_bgr_hwc.shape[0]


def _tensor(spec: YoloxSpec, box: Letterbox, image_bgr_hwc: Image) -> Tensor:
    planes = box.apply(np.ascontiguousarray(image_bgr_hwc)).transpose(2, 0, 1)[None]
    return Tensor.of_array(spec.input_name, planes.astype(_TYPES[spec.datatype]))


def _decoded(spec: YoloxSpec, box: Letterbox, response: InferResponse, min_score: float) -> Detections:
    """The head's boxes in pixels of the tile.

    Raises:
        Malformed: not such a head, or values that no such network gives.
    """
    grid = anchor_grid((box.input_width, box.input_height))
    num_anchors = len(grid[1])
    head = response.output(spec.output_name)
    if head is None or head.datatype not in {"FP32", "FP16"}:
        raise Malformed("answer: expected the head as FP32 or FP16")
    if head.shape != (1, num_anchors, BOX_FIELDS + len(spec.names)):
        message = f"answer: expected a head of {num_anchors} anchors and {len(spec.names)} classes"
        raise Malformed(message)
    raw = head.array().astype(np.float32)[0]
    if not (np.abs(raw) <= MAX_NUMBER).all():  # nor nan
        raise Malformed("answer: a head with numbers that no such network gives")
    return found_in(raw, grid, box, spec.names, DetectorConfig(min_score=min_score))
