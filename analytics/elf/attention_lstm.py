"""The region predictor of Elf: an attention LSTM over each object's last boxes. Inference in numpy."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from analytics.elf.geometry import Boxes, Numbers, Rows
from analytics.elf.prediction import MAX_REGIONS, Prediction, RunningError, edge_sizes
from base.errors import Malformed
from models.card import WEIGHTS, read_card, read_weights

FEATURES = 6
EDGE_GAIN = 10.0  # as in models.train.regions
AGE_UNIT = 4.0
_MAX_WINDOW, _MAX_HIDDEN = 32, 256
_Single = npt.NDArray[np.float32]


class AttentionLstm:
    """The network of models.train.regions: encoder, additive attention, decoder.

    Raises:
        Malformed: the arrays are not those of such a network.
    """

    def __init__(self, arrays: Mapping[str, _Single], hidden: int) -> None:
        if not 1 <= hidden <= _MAX_HIDDEN:
            message = f"regions: expected 1 to {_MAX_HIDDEN} hidden states, got {hidden}"
            raise Malformed(message)
        self._hidden = hidden
        self._encoder = _Cell(arrays, "encoder", hidden)
        self._decoder = _Cell(arrays, "decoder", hidden)
        self._ask = _take(arrays, "ask.weight", (hidden, 2 * hidden)).T
        self._ask_bias = _take(arrays, "ask.bias", (hidden,))
        self._offer = _take(arrays, "offer.weight", (hidden, hidden)).T
        self._score = _take(arrays, "score.weight", (1, hidden))[0]
        mix = _take(arrays, "mix.weight", (FEATURES, hidden + FEATURES)).T
        self._mix_context, self._mix_input = mix[:hidden].copy(), mix[hidden:].copy()
        self._mix_bias = _take(arrays, "mix.bias", (FEATURES,))
        self._head = _take(arrays, "head.weight", (4, 2 * hidden)).T
        self._head_bias = _take(arrays, "head.bias", (4,))

    def __call__(self, features: _Single) -> _Single:
        """Edge offsets [n, 4] in 1/EDGE_GAIN of the size, from features [n, window, FEATURES]."""
        count, window, _ = features.shape
        zero = np.zeros((count, self._hidden), np.float32)
        hidden, cell = zero, zero
        encoded = np.empty((window, count, self._hidden), np.float32)
        inputs = self._encoder.inputs(features.transpose(1, 0, 2))
        for step in range(window):
            hidden, cell = self._encoder(inputs[step], hidden, cell)
            encoded[step] = hidden
        offered = encoded @ self._offer
        mixed_inputs = features.transpose(1, 0, 2) @ self._mix_input + self._mix_bias
        hidden, cell, context = zero, zero, zero
        for step in range(window):
            asked = np.concatenate([hidden, cell], 1) @ self._ask + self._ask_bias
            score = np.tanh(offered + asked) @ self._score  # [window, n]
            weight = np.exp(score - score.max(0))
            weight /= weight.sum(0)
            context = np.einsum("tn,tnh->nh", weight, encoded)
            mixed = context @ self._mix_context + mixed_inputs[step]
            hidden, cell = self._decoder(self._decoder.inputs(mixed), hidden, cell)
        return np.asarray(np.concatenate([hidden, context], 1) @ self._head + self._head_bias)


class _Cell:
    """An LSTM cell with PyTorch's order of gates: input, forget, cell, output."""

    def __init__(self, arrays: Mapping[str, _Single], name: str, hidden: int) -> None:
        self._input = _take(arrays, f"{name}.weight_ih", (4 * hidden, FEATURES)).T
        self._state = _take(arrays, f"{name}.weight_hh", (4 * hidden, hidden)).T
        self._bias = _take(arrays, f"{name}.bias_ih", (4 * hidden,)) + _take(
            arrays, f"{name}.bias_hh", (4 * hidden,)
        )
        self._hidden = hidden
        # sigmoid(x) = (tanh(x / 2) + 1) / 2, so that one call does all gates
        self._half = np.full(4 * hidden, 0.5, np.float32)
        self._half[2 * hidden : 3 * hidden] = 1.0

    def inputs(self, values: _Single) -> _Single:
        """The inputs' part of the gates, [..., 4 * hidden]."""
        return np.asarray(values @ self._input + self._bias)

    def __call__(self, inputs: _Single, hidden: _Single, cell: _Single) -> tuple[_Single, _Single]:
        size = self._hidden
        gates = np.tanh((inputs + hidden @ self._state) * self._half)
        new, forget = gates[:, 2 * size : 3 * size], gates[:, size : 2 * size]
        cell = ((forget + 1) * cell + (gates[:, :size] + 1) * new) * np.float32(0.5)
        return (gates[:, 3 * size :] + 1) * np.float32(0.5) * np.tanh(cell), cell


def _take(arrays: Mapping[str, _Single], name: str, shape: tuple[int, ...]) -> _Single:
    array = arrays.get(name)
    if array is None or array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
        message = f"regions: expected finite float32 {name} {list(shape)}"
        raise Malformed(message)
    return array


def load_network(name: str = "regions-v1") -> tuple[AttentionLstm, int]:
    """The network of the packaged weights, and its window.

    Raises:
        AuthenticationFailed: the file is not the one on the card.
        Malformed: it is not such a network.
    """
    card = read_card(WEIGHTS / f"{name}.json")
    try:
        with np.load(io.BytesIO(read_weights(card, f"{name}.npz")), allow_pickle=False) as file:
            arrays = {key: np.asarray(file[key]) for key in file.files}
        window, hidden = (int(card.described["network"][key]) for key in ("window", "hidden"))
    except (KeyError, ValueError, TypeError, OSError) as error:
        message = f"{name}: expected weights of a region predictor ({type(error).__name__})"
        raise Malformed(message) from error
    if not 1 <= window <= _MAX_WINDOW:
        message = f"{name}: expected a window of 1 to {_MAX_WINDOW} boxes, got {window}"
        raise Malformed(message)
    return AttentionLstm(arrays, hidden), window


class AttentionLstmPredictor:
    """Feeds each object's last boxes, relative to the last one and in parts of its size, to the network.

    Raises:
        AuthenticationFailed, Malformed: see load_network.
    """

    name = "attention-lstm"

    def __init__(self, network: AttentionLstm | None = None, window: int = 5) -> None:
        self._network, self._window = (network, window) if network else load_network()
        self._boxes = np.zeros((MAX_REGIONS, self._window, 4))
        self._frames = np.zeros((MAX_REGIONS, self._window))
        self._error = RunningError(0.06)

    def start(self, frame_index: int, slots: Rows, boxes: Boxes) -> None:
        """See Predictor."""
        self._error.start(slots)
        self._boxes[slots] = boxes[:, None]
        self._frames[slots] = frame_index

    def observe(self, frame_index: int, slots: Rows, boxes: Boxes, expected: Boxes) -> None:
        """See Predictor."""
        if not len(slots):
            return
        frames = np.maximum(frame_index - self._frames[slots, -1], 1)
        self._error.learn(slots, expected, boxes, frames)
        self._boxes[slots] = np.concatenate([self._boxes[slots, 1:], boxes[:, None]], 1)
        self._frames[slots] = np.concatenate(
            [self._frames[slots, 1:], np.full((len(slots), 1), float(frame_index))], 1
        )

    def predict(self, frame_index: int, slots: Rows, frame_wh: tuple[int, int]) -> Prediction:
        """See Predictor."""
        if not len(slots):
            return Prediction(np.zeros((0, 4)), np.zeros((0, 4)))
        boxes = self._ahead(frame_index, slots)
        frames = np.maximum(frame_index - self._frames[slots, -1], 1)
        return Prediction(boxes, self._error.spread_px(slots, boxes, frames))

    def _ahead(self, frame_index: int, slots: Rows) -> Boxes:
        history = self._boxes[slots]
        last = history[:, -1]
        size = edge_sizes(last)
        age: Numbers = np.minimum(frame_index - self._frames[slots], 4 * AGE_UNIT)
        sides = np.maximum(history[..., 2:] - history[..., :2], 1.0)
        area = np.log(sides.prod(-1) / sides[:, -1:].prod(-1))
        edges = (history - last[:, None]) / size[:, None] * EDGE_GAIN
        features = np.concatenate([edges, area[..., None], age[..., None] / AGE_UNIT], -1)
        offset = self._network(features.astype(np.float32)) / EDGE_GAIN
        boxes = last + offset * size
        return np.concatenate(
            [np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1
        )
