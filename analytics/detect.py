"""Running a detector over a protected video."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from analytics.annotate import AnnotatedVideo
from analytics.detections import DetectionRow
from analytics.interface import Detector
from analytics.stream import FrameStream, open_frames
from base.errors import UsageError


class FrameResult(TypedDict):
    """What was found in one picture; one line of JSON Lines.

    ``frame`` counts all decoded pictures from 0, ``time_s`` is in seconds since the first one.
    """

    frame: int
    time_s: float
    width: int
    height: int
    detections: list[DetectionRow]


@dataclass(frozen=True, slots=True)
class DetectProgress:
    """How far a run is.

    Attributes:
        num_frames: pictures analysed.
        frame: index of the last one among all decoded pictures.
        total_frames: about how many pictures the stream has; None if live.
        num_dropped: pictures lost to damage, or to a detector slower than a live camera.
    """

    num_frames: int
    frame: int
    total_frames: int | None
    num_dropped: int


def run(
    source: str | FrameStream,
    detector: Detector,
    *,
    labels: Collection[str] | None = None,
    every: int = 1,
    annotate: Path | None = None,
    token: str | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[DetectProgress], None] | None = None,
) -> Iterator[FrameResult]:
    """Detect in every picture of ``source`` and yield one result per picture, in order.

    Args:
        source: path, WHEP URL, or an open stream, which is closed at the end.
        detector: from load_detector.
        labels: keep these classes only; all if None.
        every: analyse each ``every``-th picture only; for an open stream, say it when opening it.
        annotate: also write the analysed pictures with their boxes to this mp4; complete, or not there.
        token: bearer token of a WHEP endpoint.
        stop: when set, the run ends after the picture in hand, and the annotated file is completed.
        on_progress: called after every picture.

    Raises:
        UsageError: no such file, or a label that the detector does not know.
        MediaError, PeerError: the stream or the annotated file failed.
    """
    with ExitStack() as stack:
        if not isinstance(source, str):
            stack.enter_context(source)
        _check_labels(labels, detector)
        stream = source
        if isinstance(stream, str):
            stream = stack.enter_context(open_frames(stream, every=every, token=token))
        video = stack.enter_context(AnnotatedVideo(annotate)) if annotate else None
        for count, frame in enumerate(stream, 1):
            found = detector.detect(frame.image_bgr_hwc)
            found = found if labels is None else found.with_labels(labels)
            if video:
                video.write(frame.image_bgr_hwc, found, frame.time_s)
            height, width = frame.image_bgr_hwc.shape[:2]
            if on_progress:
                on_progress(DetectProgress(count, frame.index, stream.num_frames, stream.num_dropped))
            yield FrameResult(
                frame=frame.index,
                time_s=round(frame.time_s, 6),
                width=width,
                height=height,
                detections=found.to_json(),
            )
            if stop and stop.is_set():
                return


def _check_labels(labels: Collection[str] | None, detector: Detector) -> None:
    unknown = sorted(set(labels or ()) - set(detector.class_names))
    if unknown:
        message = f"labels: {detector.name} does not know {', '.join(unknown)}"
        raise UsageError(message)
