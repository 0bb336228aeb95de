"""What a worker serves: the seam, and detectors behind it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from analytics.detections import Detections
from analytics.interface import Detector, Image
from analytics.oip import InferRequest, ModelMetadata, Parameter, Tensor, TensorSpec
from analytics.worker.pictures import decode_picture, picture_bytes, picture_size
from base.errors import Malformed

VERSION = "1"
DEFAULT_MIN_SCORE = 0.3
WARM_SIZES_WH = ((640, 384), (320, 320), (128, 128))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model returns: outputs, and what it says about them."""

    outputs: tuple[Tensor, ...]
    parameters: dict[str, Parameter]


class Work(Protocol):
    """One request that was found in order."""

    @property
    def pixels(self) -> int:
        """How large it is, in pixels or other elements of the input: what its cost grows with."""

    def run(self) -> Answer:
        """Do it. On the inference thread.

        Raises:
            FormatError: the input turned out to be wrong after all.
        """


class ServedModel(Protocol):
    """A model that a worker serves. ``prepare`` is quick and runs on the event loop's thread."""

    @property
    def name(self) -> str:
        """By which it is addressed."""

    def metadata(self) -> ModelMetadata:
        """What the protocol tells about it, under its own name."""

    def prepare(self, request: InferRequest) -> Work:
        """Check a request.

        Raises:
            FormatError: it does not suit the model.
        """

    def warm_up(self) -> None:
        """Run once at the sizes to come, so that no caller pays for the first time."""


def names_sha256(names: Sequence[str]) -> str:
    """SHA-256 of the class names, joined by line feeds: tells whether two detectors mean the same classes."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


class DetectorModel:
    """A detector: one picture of a tile in, boxes in its pixels out.

    Input ``IMAGE`` BYTES [1]: JPEG or PNG. Outputs ``BOXES`` FP32 [n, 4] (left, top, right, bottom),
    ``SCORES`` FP32 [n], ``CLASSES`` INT64 [n]. Request parameter ``min_score`` leaves out weaker boxes;
    ``names`` (true) asks for the class names in the response.
    """

    def __init__(self, name: str, detector: Detector) -> None:
        self._name = name
        self._detector = detector
        self._names = "\n".join(detector.class_names)
        self._names_sha256 = names_sha256(detector.class_names)

    @property
    def name(self) -> str:
        """By which it is addressed."""
        return self._name

    def metadata(self) -> ModelMetadata:
        """See ServedModel; ``parameters`` tell class names (one a line), their hash and the detector."""
        return ModelMetadata(
            self._name,
            "veilcam",
            (TensorSpec("IMAGE", "BYTES", (1,)),),
            (
                TensorSpec("BOXES", "FP32", (-1, 4)),
                TensorSpec("SCORES", "FP32", (-1,)),
                TensorSpec("CLASSES", "INT64", (-1,)),
            ),
            (VERSION,),
            {
                "detector": self._detector.name,
                "names": self._names,
                "names_sha256": self._names_sha256,
                "max_side": 4096,
                "max_bytes": 16 << 20,
            },
        )

    def prepare(self, request: InferRequest) -> Work:
        """See ServedModel."""
        if len(request.inputs) != 1 or request.inputs[0].name != "IMAGE":
            raise Malformed("inputs: expected IMAGE alone")
        image = request.inputs[0]
        if image.datatype != "BYTES" or image.shape not in ((1,), (1, 1)):
            message = f"IMAGE: expected BYTES [1], got {image.datatype} {list(image.shape)}"
            raise Malformed(message)
        data = picture_bytes(image.strings()[0])
        return _Detection(self, data, picture_size(data), _min_score(request), _flag(request, "names"))

    def warm_up(self) -> None:
        """See ServedModel."""
        for width, height in WARM_SIZES_WH:
            self._detector.detect(np.full((height, width, 3), 114, np.uint8))

    def detect(self, picture: Image) -> Detections:
        """Boxes in pixels of the picture."""
        return self._detector.detect(picture)

    def about(self, *, with_names: bool) -> dict[str, Parameter]:
        """Response parameters that tell which detector it was."""
        said: dict[str, Parameter] = {"model": self._name, "names_sha256": self._names_sha256}
        return said | ({"names": self._names} if with_names else {})


@dataclass(frozen=True, slots=True)
class _Detection:
    model: DetectorModel
    data: bytes
    size_wh: tuple[int, int]
    min_score: float
    with_names: bool

    @property
    def pixels(self) -> int:
        return self.size_wh[0] * self.size_wh[1]

    def run(self) -> Answer:
        begun = time.perf_counter_ns()
        picture = decode_picture(self.data, self.size_wh)
        decoded = time.perf_counter_ns()
        found = self.model.detect(picture)
        done = time.perf_counter_ns()
        found = found[np.flatnonzero(found.scores >= self.min_score)]
        outputs = (
            Tensor.of_array("BOXES", np.asarray(found.boxes_xyxy, np.float32)),
            Tensor.of_array("SCORES", np.asarray(found.scores, np.float32)),
            Tensor.of_array("CLASSES", np.asarray(found.class_ids, np.int64)),
        )
        times: dict[str, Parameter] = {
            "decode_us": (decoded - begun) // 1000,
            "inference_us": (done - decoded) // 1000,
        }
        return Answer(outputs, self.model.about(with_names=self.with_names) | times)


def _min_score(request: InferRequest) -> float:
    value = request.parameters.get("min_score", DEFAULT_MIN_SCORE)
    if isinstance(value, bool | str) or not 0 <= value <= 1:
        raise Malformed("min_score: expected a number from 0 to 1")
    return float(value)


def _flag(request: InferRequest, name: str) -> bool:
    value = request.parameters.get(name, False)
    if not isinstance(value, bool):
        message = f"{name}: expected true or false"
        raise Malformed(message)
    return value
