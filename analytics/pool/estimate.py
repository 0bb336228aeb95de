"""What one worker can do, learned from its answers: speed, fixed cost, link, delay.

A request's time falls into three parts, as the worker tells how long the tile waited and how long it worked:

    total = queue + busy + transfer     busy = fixed + pixels / speed     transfer = delay + bytes / rate

A worker that gets several tiles at once also spends time between them (receiving, parsing, answering): the
gap from one answer to the next, less the work on the second, belongs to every tile and is no delay.

Both lines are fitted to the recent past by weighted least squares. A median of the last few ratios between
what was seen and what the line says follows a change of the worker's speed within three answers, and does not
follow a single outlier.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass

WINDOW = 24  # observations that a line is fitted to
HALF_LIFE = 8.0  # observations
GAPS = 15
RATIOS = 3  # whose median is the present speed against the line
MIN_SPREAD = 0.15  # standard deviation of x against its mean, below which a slope cannot be told
_RATIO_LIMITS = (0.02, 50.0)


class RobustLine:
    """``y = intercept + slope * x`` with both at least 0, and a factor for how things are right now."""

    def __init__(self, intercept: float, slope: float) -> None:
        """Begin with a guess; it keeps its shape until observations can tell a better one."""
        self._intercept, self._slope = intercept, slope
        self._points: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        self._factor = 1.0

    @property
    def intercept(self) -> float:
        """What x = 0 costs."""
        return self._factor * self._intercept

    @property
    def slope(self) -> float:
        """What one more x costs; above 0."""
        return max(self._factor * self._slope, 1e-15)

    def value(self, x: float) -> float:
        """The expected y."""
        return self.intercept + self.slope * x

    def add(self, x: float, y: float) -> None:
        """Take one observation."""
        self._points.append((x, max(y, 1e-6)))
        self._fit()
        lowest, highest = _RATIO_LIMITS
        latest = list(self._points)[-RATIOS:]
        ratios = [seen_y / max(self._intercept + self._slope * seen_x, 1e-9) for seen_x, seen_y in latest]
        self._factor = min(max(statistics.median(ratios), lowest), highest)

    def _fit(self) -> None:
        weights = [0.5 ** (age / HALF_LIFE) for age in range(len(self._points))][::-1]
        begun = weights
        for _ in range(3):  # each time with less of what lies far off
            self._solve(weights)
            residuals = [abs(y - self._intercept - self._slope * x) for x, y in self._points]
            limit = 2.0 * statistics.median(residuals) + 1e-9
            weights = [
                weight * min(1.0, limit / max(residual, 1e-12)) ** 2
                for weight, residual in zip(begun, residuals, strict=True)
            ]

    def _solve(self, weights: list[float]) -> None:
        total = sum(weights)
        mean_x = sum(w * x for w, (x, _) in zip(weights, self._points, strict=True)) / total
        mean_y = sum(w * y for w, (_, y) in zip(weights, self._points, strict=True)) / total
        var_x = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, self._points, strict=True)) / total
        if var_x > (MIN_SPREAD * mean_x) ** 2 and len(self._points) >= 3:
            cov = (
                sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, self._points, strict=True))
                / total
            )
            slope = cov / var_x
            intercept = mean_y - slope * mean_x
            if slope > 0 and intercept >= 0:
                self._intercept, self._slope = intercept, slope
                return
            if slope > 0 and mean_x > 0:
                self._intercept, self._slope = 0.0, mean_y / mean_x
                return
        scale = mean_y / max(self._intercept + self._slope * mean_x, 1e-12)  # keep the shape
        self._intercept *= scale
        self._slope *= scale


@dataclass(frozen=True, slots=True)
class Observation:
    """One answered request.

    Attributes:
        pixels: of the picture that was sent.
        sent_bytes: its coded size.
        total_s: from sending to the parsed answer.
        queue_s: how long it waited there, as the worker says; None if it does not say.
        busy_s: decoding and inference there, as the worker says; None if it does not say.
        alone: no other request of ours was on its way there: only then queue and transfer say something
            about the worker and the link rather than about our own tiles.
    """

    pixels: int
    sent_bytes: int
    total_s: float
    queue_s: float | None = None
    busy_s: float | None = None
    alone: bool = True


class WorkerEstimate:
    """Everything that is believed about one worker's speed. Not safe for two threads at once."""

    def __init__(self, *, pixels_per_s: float = 2e6, bytes_per_s: float = 12.5e6) -> None:
        """Begin with a guess of the speed (a slow core) and of the link (100 Mbit/s)."""
        self._busy = RobustLine(0.002, 1.0 / pixels_per_s)
        self._transfer = RobustLine(0.003, 1.0 / bytes_per_s)
        self._queue_s = 0.0
        self._gaps: deque[float] = deque(maxlen=GAPS)
        self._spread = 0.3  # mean absolute error of the prediction, as a part of it
        self.num_observations = 0

    def add(self, seen: Observation) -> None:
        """Learn from an answer. Times that contradict the total are not believed: the total is."""
        queue_s = min(max(seen.queue_s or 0.0, 0.0), seen.total_s)
        if seen.alone:
            self._learn_spread(seen)
        if seen.busy_s is not None:
            busy_s = min(max(seen.busy_s, 0.0), seen.total_s - queue_s)
            self._busy.add(seen.pixels, busy_s)
            if seen.alone:
                self._transfer.add(seen.sent_bytes, seen.total_s - queue_s - busy_s)
        elif seen.alone:
            rest_s = seen.total_s - queue_s - self._transfer.value(seen.sent_bytes)
            self._busy.add(seen.pixels, max(rest_s, 0.0))
        if seen.alone:
            self._queue_s += 0.3 * (queue_s - self._queue_s)
        self.num_observations += 1

    def add_gap(self, gap_s: float, sent_bytes: int) -> None:
        """Time between two answers to tiles that were there together, less the work on the second.

        What the link's rate explains of it is not counted twice.
        """
        self._gaps.append(max(gap_s - self._transfer.slope * sent_bytes, 0.0))

    @property
    def _between_s(self) -> float:
        """What a tile costs besides the work on it; all of the delay until something better is known."""
        if not self._gaps:
            return self._transfer.intercept
        return min(statistics.median(self._gaps), self._transfer.intercept)

    def add_lost(self, pixels: int, sent_bytes: int, waited_s: float) -> None:
        """An answer that did not come within ``waited_s``: it takes at least so long."""
        if waited_s > self.predicted_s(pixels, sent_bytes):
            self._busy.add(pixels, max(waited_s - self._transfer.value(sent_bytes), 0.0))
            self.num_observations += 1

    def _learn_spread(self, seen: Observation) -> None:
        expected = self.predicted_s(seen.pixels, seen.sent_bytes)
        self._spread += 0.1 * (min(abs(seen.total_s - expected) / expected, 2.0) - self._spread)

    @property
    def pixels_per_s(self) -> float:
        """Detection speed."""
        return 1.0 / self._busy.slope

    @property
    def fixed_s(self) -> float:
        """What a tile costs there whatever its size, the time between two tiles included."""
        return self._busy.intercept + self._between_s

    @property
    def bytes_per_s(self) -> float:
        """Upload rate, at most 10 GB/s."""
        return min(1.0 / self._transfer.slope, 1e10)

    @property
    def delay_s(self) -> float:
        """Time on the way and in the queue, once per frame."""
        return self._transfer.intercept - self._between_s + self._queue_s

    def predicted_s(self, pixels: int, sent_bytes: int) -> float:
        """When an answer to such a tile is expected."""
        return max(self._busy.value(pixels) + self._transfer.value(sent_bytes) + self._queue_s, 1e-4)

    def patience_s(self, expected_s: float) -> float:
        """How long to wait for an answer expected in ``expected_s`` before asking again is worth it."""
        return expected_s * (1.5 + 3.0 * self._spread) + 0.01
