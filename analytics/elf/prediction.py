"""Where known objects will be: the seam, and the two predictors that need no training.

A predictor keeps its state in arrays with one row per slot of the region table. Boxes are in pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from analytics.elf.geometry import Boxes, Numbers, Rows

MAX_REGIONS = 128
_ERROR_MEMORY = 0.8  # of the running mean of a slot's own errors


@dataclass(frozen=True, slots=True)
class Prediction:
    """Boxes expected at a frame and how far each edge may be off.

    Attributes:
        boxes_xyxy: float64 [n, 4], not cut to the frame.
        spread_px: float64 [n, 4], about one standard deviation of each edge.
    """

    boxes_xyxy: Boxes
    spread_px: Boxes


class Predictor(Protocol):
    """Follows the boxes in up to MAX_REGIONS slots."""

    @property
    def name(self) -> str:
        """For tables and reports."""

    def start(self, frame_index: int, slots: Rows, boxes: Boxes) -> None:
        """Forget what the slots held; their objects were first seen at ``boxes``."""

    def observe(self, frame_index: int, slots: Rows, boxes: Boxes, expected: Boxes) -> None:
        """The objects in ``slots`` were seen at ``boxes``; ``frame_index`` rises.

        ``expected`` is what ``predict`` said about that very frame.
        """

    def predict(self, frame_index: int, slots: Rows, frame_wh: tuple[int, int]) -> Prediction:
        """Where the objects in ``slots`` will be at ``frame_index``, in a frame of that size."""


class RunningError:
    """How far each slot's predictions were off lately, in parts of the object's size."""

    def __init__(self, first: float) -> None:
        self._first = first
        self._parts = np.full((MAX_REGIONS, 4), first)

    def start(self, slots: Rows) -> None:
        """Nothing is known of these slots."""
        self._parts[slots] = self._first

    def learn(self, slots: Rows, predicted: Boxes, seen: Boxes, frames: Numbers) -> None:
        """Compare; ``frames`` [n] is how far ahead the prediction was."""
        off = np.abs(predicted - seen) / (edge_sizes(seen) * np.sqrt(frames)[:, None])
        self._parts[slots] += (1 - _ERROR_MEMORY) * (np.minimum(off, 1.0) - self._parts[slots])

    def spread_px(self, slots: Rows, boxes: Boxes, frames: Numbers) -> Boxes:
        """The expected error ``frames`` ahead: grows with the square root, as a random walk does."""
        return np.asarray(1.25 * self._parts[slots] * edge_sizes(boxes) * np.sqrt(frames)[:, None])


def edge_sizes(boxes: Boxes) -> Boxes:
    """[n, 4]: the width for the left and right edge, the height for the top and bottom edge; at least 4."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 4.0)
    return np.concatenate([sides, sides], 1)


class LastBoxPredictor:
    """Everything stays where it was last seen."""

    name = "last-box"

    def __init__(self) -> None:
        self._boxes = np.zeros((MAX_REGIONS, 4))
        self._seen = np.zeros(MAX_REGIONS)
        self._error = RunningError(0.06)

    def start(self, frame_index: int, slots: Rows, boxes: Boxes) -> None:
        """See Predictor."""
        self._error.start(slots)
        self._boxes[slots] = boxes
        self._seen[slots] = frame_index

    def observe(self, frame_index: int, slots: Rows, boxes: Boxes, expected: Boxes) -> None:
        """See Predictor."""
        self._error.learn(slots, expected, boxes, np.maximum(frame_index - self._seen[slots], 1))
        self._boxes[slots] = boxes
        self._seen[slots] = frame_index

    def predict(self, frame_index: int, slots: Rows, frame_wh: tuple[int, int]) -> Prediction:
        """See Predictor."""
        boxes = self._boxes[slots]
        frames = np.maximum(frame_index - self._seen[slots], 1)
        return Prediction(boxes, self._error.spread_px(slots, boxes, frames))


@dataclass(frozen=True, slots=True)
class KalmanNoise:
    """Standard deviations in parts of the object's width (left, right) or height (top, bottom).

    ``acceleration`` per frame squared; found by `bench/elf_predictors.py` on the training clips.
    """

    measured: float = 0.015
    acceleration: float = 0.006
    first_speed: float = 0.05


class KalmanPredictor:
    """Each edge: position and constant velocity (Kalman 1960), noise in parts of the object's size.

    Four filters of two states need no matrices: the covariance has three numbers.
    """

    name = "kalman"

    def __init__(self, noise: KalmanNoise | None = None) -> None:
        self._noise = noise or KalmanNoise()
        # position, speed, variance of position, covariance, variance of speed; then the object's size
        self._state = np.ones((6, MAX_REGIONS, 4))
        self._seen = np.zeros(MAX_REGIONS)
        self._error = RunningError(0.06)

    def start(self, frame_index: int, slots: Rows, boxes: Boxes) -> None:
        """See Predictor."""
        size = edge_sizes(boxes)
        noise = self._noise
        zero = np.zeros_like(size)
        self._error.start(slots)
        self._state[:, slots] = (
            boxes,
            zero,
            (noise.measured * size) ** 2,
            zero,
            (noise.first_speed * size) ** 2,
            size,
        )
        self._seen[slots] = frame_index

    def observe(self, frame_index: int, slots: Rows, boxes: Boxes, expected: Boxes) -> None:
        """See Predictor."""
        frames = np.maximum(frame_index - self._seen[slots], 1)
        self._error.learn(slots, expected, boxes, frames)
        state = self._state.take(slots, 1)
        at, var, cov, speed_var = self._ahead(state, frames[:, None])
        size = edge_sizes(boxes)
        gain_at = var / (var + (self._noise.measured * size) ** 2)
        gain_speed = gain_at * cov / var
        off = boxes - at
        left = 1 - gain_at
        self._state[:, slots] = (
            at + gain_at * off,
            state[1] + gain_speed * off,
            left * var,
            left * cov,
            speed_var - gain_speed * cov,
            size,
        )
        self._seen[slots] = frame_index

    def predict(self, frame_index: int, slots: Rows, frame_wh: tuple[int, int]) -> Prediction:
        """See Predictor."""
        frames = np.maximum(frame_index - self._seen[slots], 0)
        state = self._state.take(slots, 1)
        at, var, _, _ = self._ahead(state, frames[:, None])
        boxes = at
        if (at[:, 2:] < at[:, :2]).any():
            boxes = np.concatenate([np.minimum(at[:, :2], at[:, 2:]), np.maximum(at[:, :2], at[:, 2:])], 1)
        learnt = self._error.spread_px(slots, boxes, np.maximum(frames, 1))
        own = np.sqrt(var + (self._noise.measured * state[5]) ** 2)
        return Prediction(boxes, np.maximum(learnt, own))

    def _ahead(self, state: Numbers, frames: Numbers) -> tuple[Boxes, Boxes, Boxes, Boxes]:
        """Position, its variance, covariance with and variance of the speed, ``frames`` [n, 1] later."""
        at, speed, var, cov, speed_var, size = state
        # White acceleration noise, discrete: [t^4/4, t^3/2, t^2] (Bar-Shalom et al. 2001, eq. 6.3.2-4)
        drive = (self._noise.acceleration * size * frames) ** 2
        carried = frames * speed_var
        var = var + frames * (2 * cov + carried) + drive * (frames * frames / 4)
        return at + frames * speed, var, cov + carried + drive * (frames / 2), speed_var + drive
