"""One file in, one protected file out, through the same pipeline as a live camera."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from base.errors import MediaError, UsageError
from camera.broadcast import QueueLimits, Subscription, WhenFull
from camera.pipeline import FrameProtector, Pipeline, PipelineOptions
from camera.publisher import CodingOptions
from camera.sources import Source, open_source
from camera.sources.uri import SourceKind, parse_uri
from camera.stats import PipelineStats
from codec.container import ContainerWriter
from keys import CameraKey, EpochRing

_QUEUE = QueueLimits(max_units=64, max_bytes=64 * 1024 * 1024)

Progress = Callable[[int, int | None], None]
"""Called with pictures done and pictures expected (None: not known; the estimate may be off by a few)."""


@dataclass(frozen=True, slots=True)
class ProtectedFile:
    """What was made."""

    path: Path
    pictures: int
    segments: int
    width: int
    height: int
    sealed_mode: str
    pixels: str  # off, low or high
    sealed_bytes: int  # of the original's packets
    num_bytes: int  # of the file
    seconds: float  # of work
    stats: PipelineStats


def protect_file(
    source: str | Path | Source,
    target: Path,
    *,
    protector: FrameProtector,
    camera_key: CameraKey,
    epochs: EpochRing | None,
    coding: CodingOptions | None = None,
    progress: Progress | None = None,
    start_unix_us: int | None = None,
) -> ProtectedFile:
    """Protect every picture of a file (or folder, or scene) and seal its original.

    Nothing is dropped, the output appears under its name when complete or not at all, and for the same
    input, settings and library versions the protected pictures are the same bit for bit, unless the original
    is also hidden in them (`CodingOptions.pixels`), which is done under fresh keys.

    Args:
        source: path, source string, or an open source that ends by itself.
        target: ``.mp4``, ``.mkv``, ``.mov``, ``.ts`` or ``.h264``; replaced if it exists.
        protector: from ``models.load_protector``.
        camera_key: signs.
        epochs: recipients' keys; None with sealed mode ``none``.
        coding: of both layers.
        progress: called in this thread, once per picture.
        start_unix_us: capture time of the first picture; default: the file's creation time, else its
            time of last change.

    Raises:
        UsageError: bad names or options; the source is a pipe or a device, or the target.
        MediaError: the source cannot be read, or the target cannot be written.
    """
    began_s = time.monotonic()
    if isinstance(source, Source):
        opened = source
    else:
        _refuse_endless(str(source))
        _refuse_same(source, target)
        opened = open_source(str(source), start_unix_us=start_unix_us)
    pipeline = Pipeline(opened, protector, camera_key, epochs, PipelineOptions(coding or CodingOptions()))
    subscription = pipeline.broadcast.subscribe("file", limits=_QUEUE, when_full=WhenFull.WAIT)
    pipeline.start()
    try:
        _write(pipeline, subscription, opened, target, progress)
    finally:
        pipeline.stop()
        pipeline.broadcast.unsubscribe(subscription)
        pipeline.join()
    stats = pipeline.stats()
    return ProtectedFile(
        target,
        stats.frames_out,
        stats.segments,
        stats.width,
        stats.height,
        stats.sealed_mode,
        stats.pixels,
        stats.sealed_bytes,
        target.stat().st_size,
        time.monotonic() - began_s,
        stats,
    )


def _write(
    pipeline: Pipeline, subscription: Subscription, source: Source, target: Path, progress: Progress | None
) -> None:
    first = subscription.get()
    _refuse_failure(pipeline, source, empty=first is None)
    stats = pipeline.stats()
    try:
        with ContainerWriter(target, stats.width, stats.height, rate=source.rate) as writer:
            done = 0
            unit = first
            while unit is not None:
                writer.write(unit.unit)
                done += 1
                if progress is not None:
                    progress(done, source.expected_pictures)
                unit = subscription.get()
            _refuse_failure(pipeline, source)
    except OSError as error:
        message = f"{target.name}: cannot be written: {error.strerror}"
        raise MediaError(message) from error


def _refuse_failure(pipeline: Pipeline, source: Source, *, empty: bool = False) -> None:
    """Raise what stopped the pipeline: the end of its units alone does not tell."""
    if empty:
        pipeline.join()
    if pipeline.error is not None:
        raise pipeline.error
    if empty:
        message = f"source {source.name}: no picture"
        raise MediaError(message)


def _refuse_endless(source: str) -> None:
    """A pipe or a device may never begin or never end; `camera run` is for those."""
    uri = parse_uri(source)
    path = Path(uri.target)
    if uri.kind is SourceKind.V4L2 or (uri.kind is SourceKind.FILE and path.exists() and not path.is_file()):
        message = f"{source}: expected a regular file, got a pipe or a device"
        raise UsageError(message)


def _refuse_same(source: str | Path, target: Path) -> None:
    path = Path(source)
    if path.exists() and target.exists() and path.samefile(target):
        message = f"{target}: is the source itself"
        raise UsageError(message)
