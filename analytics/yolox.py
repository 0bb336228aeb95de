"""YOLOX (Ge et al. 2021, arXiv 2107.08430) in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from analytics.classes import COCO_NAMES
from analytics.detections import Detections
from analytics.interface import DetectorConfig, Image, check_image
from analytics.letterbox import Letterbox
from analytics.suppression import suppress
from base.errors import Malformed, UsageError
from models.yolox_head import STRIDES, Grid, anchor_grid, boxes_of

BOX_FIELDS = 5  # centre x, centre y, width, height, objectness
_MAX_INPUT_SIDE = 4096
FLOAT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class YoloxDetector:
    """A YOLOX network from an ONNX file with the raw head of the official exports.

    Input: float 1x3xHxW BGR, 0 to 255. Output: 1 x anchors x (5 + classes), not yet decoded,
    objectness and classes already through the sigmoid. The file is trusted as far
    as ONNX Runtime trusts it; its shapes are checked.

    Raises:
        UsageError: no such file.
        Malformed: not an ONNX model, or one with another input or output.
    """

    def __init__(self, path: Path, config: DetectorConfig | None = None) -> None:
        self._config = config or DetectorConfig()
        self._path = path
        self._session = open_session(path, self._config.threads)
        self._input_wh, self._dtype = self._check_input()
        self._grid = anchor_grid(self._input_wh)
        self._names = self._check_output()

    @property
    def name(self) -> str:
        """``yolox:`` and the file name."""
        return f"yolox:{self._path.name}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """COCO's names for an 80-class model, else class_0, class_1, ..."""
        return self._names

    def detect(self, frame_bgr_hwc: Image) -> Detections:
        """See Detector."""
        height, width = check_image(frame_bgr_hwc)
        box = Letterbox.fit((width, height), self._input_wh)
        network_input = box.apply(frame_bgr_hwc).transpose(2, 0, 1)[None].astype(self._dtype)
        (raw,) = self._session.run(None, {self._session.get_inputs()[0].name: network_input})
        return found_in(raw[0].astype(np.float32), self._grid, box, self._names, self._config)

    def _check_input(self) -> tuple[tuple[int, int], npt.DTypeLike]:
        inputs = self._session.get_inputs()
        shape = inputs[0].shape if len(inputs) == 1 else None
        dtype = FLOAT_TYPES.get(inputs[0].type) if inputs else None
        if not shape or len(shape) != 4 or shape[1] != 3 or dtype is None:
            message = f"{self._path.name}: expected one float input 1x3xHxW, got {shape} {inputs[0].type}"
            raise Malformed(message)
        height, width = shape[2:]
        for side in (height, width):
            if not isinstance(side, int) or side % STRIDES[-1] or not 0 < side <= _MAX_INPUT_SIDE:
                message = f"{self._path.name}: expected fixed sides, multiples of 32, got {width}x{height}"
                raise Malformed(message)
        return (width, height), dtype

    def _check_output(self) -> tuple[str, ...]:
        outputs = self._session.get_outputs()
        shape = outputs[0].shape if len(outputs) == 1 else None
        num_anchors = len(self._grid[1])
        if not shape or len(shape) != 3 or shape[1] != num_anchors or not isinstance(shape[2], int):
            message = f"{self._path.name}: expected one output 1x{num_anchors}x(5+classes), got {shape}"
            raise Malformed(message)
        num_classes = shape[2] - BOX_FIELDS
        if num_classes < 1:
            message = f"{self._path.name}: expected at least 6 values per anchor, got {shape[2]}"
            raise Malformed(message)
        return names_of(num_classes)


def open_session(
    model: Path | bytes, threads: int | None, name: str | None = None
) -> onnxruntime.InferenceSession:
    """A CPU session of an ONNX file, or of its bytes.

    Args:
        model: the file, or what it holds.
        threads: of the run-time; None leaves it to the run-time.
        name: what messages call it; the file's name if None.

    Raises:
        UsageError: no such file.
        Malformed: ONNX Runtime cannot load it.
    """
    if isinstance(model, Path) and not model.is_file():
        message = f"{model}: no such model file"
        raise UsageError(message)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads or 0
    options.enable_mem_pattern = isinstance(model, Path)  # else one plan is kept for every size that came by
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the camera needs the cores too
    source = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors share no base but Exception
        name = name or (model.name if isinstance(model, Path) else "model")
        message = f"{name}: not a model that ONNX Runtime can load: {str(error)[:200]}"
        raise Malformed(message) from error


def names_of(num_classes: int) -> tuple[str, ...]:
    """COCO's names for 80 classes, else class_0, class_1, ..."""
    if num_classes == len(COCO_NAMES):
        return COCO_NAMES
    return tuple(f"class_{index}" for index in range(num_classes))


def found_in(
    raw: npt.NDArray[np.float32],
    grid: Grid,
    box: Letterbox,
    names: tuple[str, ...],
    config: DetectorConfig,
) -> Detections:
    """The raw head [anchors, 5 + classes] of a letterboxed picture as detections in its own pixels."""
    candidates = decode_head(raw, *grid, names, config.min_score)
    boxes = box.boxes_to_source(candidates.boxes_xyxy)
    placed = Detections(boxes, candidates.scores, candidates.class_ids, names)
    inside = placed.clipped(box.source_width, box.source_height)  # what lies in the padding goes
    return suppress(inside, config)


def decode_head(
    raw: npt.NDArray[np.float32],
    grid_xy: npt.NDArray[np.float32],
    stride: npt.NDArray[np.float32],
    names: tuple[str, ...],
    min_score: float,
) -> Detections:
    """Boxes in pixels of the network input from the raw head [anchors, 5 + classes].

    score = objectness * best class. Anchors below ``min_score`` or with numbers that are not finite are left
    out.
    """
    class_ids = raw[:, BOX_FIELDS:].argmax(1)
    scores = raw[:, 4] * raw[np.arange(len(raw)), BOX_FIELDS + class_ids]
    keep = (scores >= min_score) & np.isfinite(raw[:, :4]).all(1) & (raw[:, 2:4] < 20).all(1)
    boxes = boxes_of(raw[keep], grid_xy[keep], stride[keep])
    return Detections(boxes, np.clip(scores[keep], 0, 1), class_ids[keep], names)
