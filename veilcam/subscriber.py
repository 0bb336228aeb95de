"""What ``veilcam subscribe`` does with the units it receives: count, record, detect."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.decoding import UnitDecoder, to_bgr
from analytics.encoded_unit import EncodedUnit, UnitQueue
from analytics.subscribe import Subscription
from base.errors import MediaError, PeerError
from codec.access_unit import AccessUnit
from codec.sei import SeiKind, veilcam_kind
from codec.writers import ContainerWriter

if TYPE_CHECKING:
    from analytics.detector import Detector

logger = logging.getLogger(__name__)

_DETECT_UNITS, _DETECT_BYTES = 128, 16 << 20


@dataclass(slots=True)
class Received:
    """Counters of one subscription."""

    units: int = 0
    bytes: int = 0
    key_frames: int = 0
    signed: int = 0  # units with a META message
    sealed: int = 0  # units with a piece of the sealed layer
    gaps: int = 0
    files: list[str] = field(default_factory=list)


class UnitRecorder:
    """Writes units into a file as they are, SEI included; another file where the picture's size changes."""

    def __init__(self, path: Path) -> None:
        self.paths: list[Path] = []
        self._path = path
        self._writer: ContainerWriter | None = None

    def write(self, unit: AccessUnit) -> None:
        """Take a unit.

        Raises:
            MediaError: it cannot be written.
        """
        if self._writer is None:
            self._begin(unit)
        assert self._writer is not None  # noqa: S101  # for the type checker
        try:
            self._writer.write(unit)
        except MediaError:
            if not unit.is_keyframe:
                raise
            self.close()
            self._begin(unit)
            self._writer.write(unit)

    def close(self) -> None:
        """Finish the file and give it its name."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def abort(self) -> None:
        """Leave out the file that is not finished."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()

    def _begin(self, unit: AccessUnit) -> None:
        width, height = picture_size(unit)
        number = len(self.paths) + 1
        path = self._path if number == 1 else self._path.with_stem(f"{self._path.stem}-{number}")
        self._writer = ContainerWriter(path, width, height)
        self.paths.append(path)


def picture_size(unit: AccessUnit) -> tuple[int, int]:
    """Width and height of a key unit's picture.

    Raises:
        MediaError: it cannot be decoded.
    """
    decoder = UnitDecoder()
    pictures = decoder.decode(unit.annexb(), 0) + decoder.flush()
    if not pictures:
        message = "the first key frame cannot be decoded"
        raise MediaError(message)
    return pictures[0][1].width, pictures[0][1].height


class UnitDetector:
    """Decodes and detects on a thread; when it falls behind it goes on with the next key frame."""

    def __init__(self, model: Detector, emit: Callable[[str], None]) -> None:
        self.found: Counter[str] = Counter()
        self._model = model
        self._emit = emit
        self._queue = UnitQueue(_DETECT_UNITS, _DETECT_BYTES)
        self._changed = threading.Condition()
        self._ended = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="veilcam-detect", daemon=True)
        self._thread.start()

    @property
    def num_dropped(self) -> int:
        """Units that were not looked at."""
        return self._queue.num_dropped

    def put(self, unit: EncodedUnit) -> None:
        """Queue a unit; never waits."""
        with self._changed:
            self._queue.put(unit.data, unit.pts_us)
            self._changed.notify()

    def close(self) -> None:
        """Look at what waits, then end."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        decoder = UnitDecoder()
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._queue) or self._ended)
                    unit = self._queue.pop()
                if unit is None:
                    return
                for time_s, picture in decoder.decode(unit.data, unit.pts_us):
                    rows = self._model.detect(to_bgr(picture)).to_json()
                    self.found.update(row["label"] for row in rows)
                    self._emit(json.dumps({"time_s": round(time_s, 3), "detections": rows}))
        except Exception as error:  # the thread must end with its reason, whatever a detector raises
            self.error = error
            logger.warning("detecting ended: %s: %s", type(error).__name__, error)


async def receive(
    stream: Subscription,
    *,
    recorder: UnitRecorder | None = None,
    detector: UnitDetector | None = None,
    seconds: float | None = None,
    max_units: int | None = None,
    stop: asyncio.Event | None = None,
) -> Received:
    """Take units until ``seconds``, ``max_units`` or ``stop``, or the stream's end.

    Raises:
        PeerError: the stream cannot be had.
        MediaError: a unit cannot be written.
    """
    counts = Received()
    stopper = asyncio.create_task(_stop_after(stream, seconds, stop))
    try:
        async for unit in stream:
            _count(counts, unit)
            if recorder is not None:
                parsed = AccessUnit.from_annexb(unit.data, unit.pts_us)
                await asyncio.to_thread(recorder.write, parsed)
            if detector is not None:
                if detector.error is not None:
                    raise MediaError(f"detecting ended: {detector.error}")
                detector.put(unit)
            if max_units is not None and counts.units >= max_units:
                break
    finally:
        stopper.cancel()
        with suppress(asyncio.CancelledError):
            await stopper
        await stream.close()
    if not counts.units:
        message = "the stream ended before a picture came"
        raise PeerError(message)
    return counts


async def _stop_after(stream: Subscription, seconds: float | None, stop: asyncio.Event | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await (stop or asyncio.Event()).wait()
    await stream.close()


def _count(counts: Received, unit: EncodedUnit) -> None:
    kinds = {veilcam_kind(nal) for nal in AccessUnit.from_annexb(unit.data, unit.pts_us).nals}
    counts.units += 1
    counts.bytes += len(unit.data)
    counts.key_frames += unit.is_keyframe
    counts.signed += SeiKind.META in kinds
    counts.sealed += SeiKind.SEALED in kinds
    counts.gaps += unit.discontinuity
