"""YOLOX at the picture's own size: what a tile costs is proportional to its pixels."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analytics.detections import Detections
from analytics.interface import DetectorConfig, Image, check_image
from analytics.letterbox import Letterbox
from analytics.yolox import BOX_FIELDS, FLOAT_TYPES, found_in, names_of, open_session
from base.errors import Malformed, MissingDependency, UsageError
from models.yolox_head import STRIDES, Grid, anchor_grid

MAX_SIDE = 4096  # pixels of the network's input, whatever the picture
_PROBES_WH = ((64, 32), (96, 64))  # two sizes that tell whether the graph depends on the one it declares


class TileYoloxDetector:
    """A YOLOX network of the official ONNX exports, run at any size that is a multiple of 32.

    The exports declare one fixed input (416x416, 640x640), but nothing in their graph needs it: the network
    is fully convolutional and its head is flattened with ``[1, values, -1]``. Declaring the sides as symbols
    is enough; at the declared size the answer is the same to the bit. A picture is not scaled (small tiles
    are not blown up, so their cost stays small) but padded at the right and at the bottom to multiples of
    32; only above ``config.max_side`` it is scaled down.

    Raises:
        UsageError: no such file.
        MissingDependency: the ``onnx`` package (extra ``worker``) is not installed.
        Malformed: not such a model, or one whose graph needs its declared size.
    """

    def __init__(self, path: Path, config: DetectorConfig | None = None) -> None:
        self._config = config or DetectorConfig()
        self._path = path
        self._session = open_session(free_sides(path), self._config.threads, path.name)
        (self._input,) = self._session.get_inputs()
        self._dtype = FLOAT_TYPES[self._input.type]
        self._names = self._probe()

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
        box = fit_native((width, height), self._config.max_side)
        raw = self._run(box.apply(frame_bgr_hwc))
        grid = _grid((box.input_width, box.input_height))
        return found_in(raw, grid, box, self._names, self._config)

    def _run(self, canvas_hwc: Image) -> npt.NDArray[np.float32]:
        """The raw head [anchors, 5 + classes] of a canvas [H, W, 3] with sides that are multiples of 32."""
        network_input = canvas_hwc.transpose(2, 0, 1)[None].astype(self._dtype)
        (raw,) = self._session.run(None, {self._input.name: network_input})
        return np.asarray(raw[0], np.float32)

    def _probe(self) -> tuple[str, ...]:
        values = set()
        for width, height in _PROBES_WH:
            num_anchors = len(_grid((width, height))[1])
            try:
                shape = self._run(np.zeros((height, width, 3), np.uint8)).shape
            except Exception as error:  # ONNX Runtime's errors share no base but Exception
                message = f"{self._path.name}: its graph does not run at {width}x{height}: {str(error)[:200]}"
                raise Malformed(message) from error
            if len(shape) != 2 or shape[0] != num_anchors or shape[1] <= BOX_FIELDS:
                message = (
                    f"{self._path.name}: expected one output 1x{num_anchors}x(5+classes) at"
                    f" {width}x{height}, got 1x{'x'.join(map(str, shape))}"
                )
                raise Malformed(message)
            values.add(shape[1])
        if len(values) != 1:
            message = (
                f"{self._path.name}: expected one number of classes, got {sorted(values)} values per anchor"
            )
            raise Malformed(message)
        return names_of(values.pop() - BOX_FIELDS)


def fit_native(source_wh: tuple[int, int], max_side: int | None) -> Letterbox:
    """Where a picture of (width, height) lies in its own network input: unscaled if it may be that large.

    The input's sides are the next multiples of 32, at least 32.
    """
    limit = min(max_side or MAX_SIDE, MAX_SIDE)
    ratio = min(1.0, limit / max(source_wh))
    inner = [max(1, round(side * ratio)) for side in source_wh]
    step = STRIDES[-1]
    return Letterbox(*source_wh, *inner, *(-(-side // step) * step for side in inner))


def free_sides(path: Path) -> bytes:
    """The ONNX model at ``path`` with height, width and number of anchors declared as symbols.

    Raises:
        UsageError: no such file.
        MissingDependency: the ``onnx`` package is not installed.
        Malformed: not an ONNX model with one float input 1x3xHxW and one output of three dimensions.
    """
    if not path.is_file():
        message = f"{path}: no such model file"
        raise UsageError(message)
    try:
        import onnx  # noqa: PLC0415  # an extra
        from google.protobuf.message import DecodeError  # noqa: PLC0415  # onnx brings it
    except ImportError as error:
        message = "a detector at any size needs the extra 'worker': pip install 'veilcam[worker]'"
        raise MissingDependency(message) from error
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except DecodeError as error:
        message = f"{path.name}: not an ONNX model"
        raise Malformed(message) from error
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value.type.tensor_type for value in graph.input if value.name not in weights]
    outputs = [value.type.tensor_type for value in graph.output]
    if len(inputs) != 1 or len(inputs[0].shape.dim) != 4 or inputs[0].shape.dim[1].dim_value != 3:
        message = f"{path.name}: expected one input 1x3xHxW"
        raise Malformed(message)
    if inputs[0].elem_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16):
        message = f"{path.name}: expected float input"
        raise Malformed(message)
    if len(outputs) != 1 or len(outputs[0].shape.dim) != 3:
        message = f"{path.name}: expected one output 1xanchorsx(5+classes)"
        raise Malformed(message)
    inputs[0].shape.dim[2].dim_param = "height"
    inputs[0].shape.dim[3].dim_param = "width"
    outputs[0].shape.dim[1].dim_param = "anchors"
    del graph.value_info[:]  # shapes inferred for the declared size
    return bytes(model.SerializeToString())


@lru_cache(maxsize=64)
def _grid(input_wh: tuple[int, int]) -> Grid:
    return anchor_grid(input_wh)
