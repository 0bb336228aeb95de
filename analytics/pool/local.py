"""The camera's own detector: answers what no worker answers, and looks at the whole frame by policy."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from analytics.detections import Detections
from analytics.elf.types import LOCAL, WorkerView
from analytics.interface import Detector, Image
from analytics.pool.answer import Answer
from analytics.pool.estimate import RobustLine
from analytics.pool.tiles import CutTile


class LocalDetector:
    """One detector in a thread of its own; a tile that comes while it works is refused, never queued.

    Tiles of one frame that come together are taken one after another as long as their time allows.
    """

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._line = RobustLine(0.005, 1 / 3e6)
        self._thread = ThreadPoolExecutor(1, "veilcam-local-detector")
        self._lock = asyncio.Lock()
        self._abandoned: asyncio.Future[tuple[Detections, float]] | None = None
        self.names: tuple[str, ...] | None = None  # the pool's classes; None: the detector's own
        self.num_answered = 0

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of its answers."""
        return self.names or self._detector.class_names

    def predicted_s(self, pixels: int) -> float:
        """How long a tile of so many pixels takes."""
        return self._line.value(pixels)

    def view(self) -> WorkerView:
        """What the planner is told."""
        return WorkerView(LOCAL, 1 / self._line.slope, 1e10, 0.0, self._line.intercept, 1.0, trusted=True)

    async def infer(self, cut: CutTile, timeout_s: float) -> Answer | None:
        """The tile's detections, or None when they cannot be had within ``timeout_s``."""
        until_s = time.monotonic() + timeout_s
        try:
            async with asyncio.timeout(max(timeout_s, 0)):
                await self._lock.acquire()
        except TimeoutError:
            return None
        try:
            if self._abandoned is not None and not self._abandoned.done():
                return None  # still at work for a frame that is over
            left_s = until_s - time.monotonic()
            if left_s < self.predicted_s(cut.pixels):
                return None
            return await self._run(cut, left_s)
        finally:
            self._lock.release()

    async def _run(self, cut: CutTile, left_s: float) -> Answer | None:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, self._detect, cut.image_bgr_hwc)
        done, _ = await asyncio.wait([work], timeout=left_s)
        if not done:
            self._abandoned = work
            work.add_done_callback(lambda finished: finished.cancelled() or finished.exception())
            return None
        found, busy_s = work.result()
        self._line.add(cut.pixels, busy_s)
        self.num_answered += 1
        return Answer(found, 0.0, busy_s)

    def _detect(self, image_bgr_hwc: Image) -> tuple[Detections, float]:
        began_s = time.monotonic()
        found = self._detector.detect(np.ascontiguousarray(image_bgr_hwc))
        if self.names is not None:
            found = relabelled(found, self.names)
        return found, time.monotonic() - began_s

    def close(self) -> None:
        """End the thread when its work is done."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def relabelled(found: Detections, names: tuple[str, ...]) -> Detections:
    """The same boxes among other classes, by label; those of labels that ``names`` lacks are left out."""
    if found.names == names:
        return found
    places = {name: index for index, name in enumerate(names)}
    kept = [row for row, label in enumerate(found.labels) if label in places]
    part = found[kept]
    class_ids = np.array([places[label] for label in part.labels], np.int64)
    return Detections(part.boxes_xyxy, part.scores, class_ids, names)
