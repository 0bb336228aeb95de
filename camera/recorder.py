"""Writes the published stream into files: DIR/CAMERA/DATE/CAMERA_START.mp4, UTC.

A file holds whole segments, is ``NAME.part`` while it grows, and gets its name when it is finished. Each
segment is on the disk (fsync) as soon as it ends: a power cut costs at most the open one, and the next start
finishes the file that was left. When the disk is full recording stops with an error and goes on by itself
once there is room; the live stream does not notice.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from base.errors import MediaError, UsageError, VeilError
from camera.broadcast import Broadcast, QueueLimits, WhenFull
from camera.health import RecorderState
from camera.retention import SUFFIX, RetentionRules, apply_retention
from camera.workers import Workers
from codec.container import Fmp4Writer, recover_part
from codec.records import SegmentHeader
from codec.sealer import SealedUnit
from codec.segments import view_unit

logger = logging.getLogger(__name__)

_QUEUE = QueueLimits(max_units=2048, max_bytes=64 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class RecorderOptions:
    """Where and how long."""

    folder: Path
    camera_name: str
    file_s: float = 600.0  # a file ends with the first segment that reaches this length
    retention: RetentionRules = field(default_factory=RetentionRules)
    min_free_bytes: int = 256 * 1024 * 1024  # recording stops when less is free
    retry_s: float = 2.0  # how often a stopped recorder looks for room

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", self.camera_name):
            message = (
                f"camera name: expected letters, digits, dot, dash, underscore; got {self.camera_name!r}"
            )
            raise UsageError(message)


class Recorder:
    """One camera's recorder: a sink on its own thread, never slower than its queue, which then skips."""

    def __init__(self, broadcast: Broadcast, options: RecorderOptions) -> None:
        """Lock the camera's folder, finish what a power cut left, and subscribe.

        Raises:
            UsageError: the folder cannot be written, or another recorder uses it.
        """
        self._options = options
        self._folder = options.folder / options.camera_name
        self._lock = _lock_folder(self._folder)
        self.recovered = _recover(self._folder)
        self._broadcast = broadcast
        self._subscription = broadcast.subscribe("recorder", limits=_QUEUE, when_full=WhenFull.SKIP)
        self._workers = Workers()
        self._writer: Fmp4Writer | None = None
        self._file_start_us = 0
        self._stopped_s: float | None = None
        self._error = ""
        self._segments = self._finished_bytes = self._lost_units = 0

    def start(self) -> None:
        """Start the thread."""
        self._workers.start("veilcam-record", self._run)

    def close(self, timeout_s: float | None = 30.0) -> bool:
        """Take no more units, write what is queued, finish the file; True when done."""
        self._broadcast.unsubscribe(self._subscription)
        return self.join(timeout_s)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, which comes with the end of the broadcast; True when done."""
        return self._workers.join(timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close(None)

    def state(self) -> RecorderState:
        """What the recorder tells at this moment; safe from any thread."""
        failure = self._workers.error
        writer = self._writer
        return RecorderState(
            folder=str(self._folder),
            segments=self._segments,
            written_bytes=self._finished_bytes + (writer.bytes_written if writer else 0),
            free_bytes=_free_bytes(self._folder),
            min_free_bytes=self._options.min_free_bytes,
            error=self._error if failure is None else f"{type(failure).__name__}: {failure}",
        )

    @property
    def lost_units(self) -> int:
        """Units that were not recorded: the disk was full or too slow."""
        return self._lost_units + self._subscription.stats().skipped_units

    def _run(self) -> None:
        try:
            for unit in self._subscription:
                self._take(unit)
            self._finish_file()
        finally:
            self._broadcast.unsubscribe(self._subscription)
            os.close(self._lock)

    def _take(self, unit: SealedUnit) -> None:
        try:
            if unit.starts_segment:
                self._prepare_file(unit)
            if self._writer is None:
                self._lost_units += 1
                return
            self._writer.write(unit.unit)
            if unit.is_last:
                self._writer.end_segment()
                self._segments += 1
        except (OSError, MediaError) as error:
            self._give_up(error)
            self._lost_units += 1

    def _prepare_file(self, unit: SealedUnit) -> None:
        """Have a file open for the segment that begins, unless recording is stopped."""
        start_us = unit.unit.pts_us
        if self._writer is not None and start_us - self._file_start_us >= self._options.file_s * 1e6 - 1000:
            self._finish_file()
        if self._writer is not None:
            if _free_bytes(self._folder) >= self._options.min_free_bytes:
                return
            self._finish_file()
        now_s = time.monotonic()
        if self._stopped_s is not None and now_s - self._stopped_s < self._options.retry_s:
            return
        apply_retention(self._folder, self._options.retention)
        free = _free_bytes(self._folder)
        if free < self._options.min_free_bytes:
            message = f"{free} bytes are free, {self._options.min_free_bytes} are wanted"
            raise OSError(message)
        self._writer = self._open_file(unit, start_us)
        self._file_start_us = start_us
        if self._error:
            logger.warning("recorder: recording again")
        self._error, self._stopped_s = "", None

    def _open_file(self, unit: SealedUnit, start_us: int) -> Fmp4Writer:
        meta = view_unit(unit.unit).meta
        if meta is None or meta.header is None:
            message = "recorder: a segment starts without a header"
            raise MediaError(message)
        header = SegmentHeader.parse(meta.header)
        start = datetime.fromtimestamp(start_us / 1e6, UTC)
        day = self._folder / f"{start:%Y-%m-%d}"
        day.mkdir(parents=True, exist_ok=True)
        stamp = f"{start:%Y%m%dT%H%M%S}.{start.microsecond // 1000:03d}Z"
        path = _unused(day / f"{self._options.camera_name}_{stamp}{SUFFIX}")
        return Fmp4Writer(path, header.width, header.height, growing=True)

    def _finish_file(self) -> None:
        writer = self._writer
        if writer is None:
            return
        writer.close()  # if it fails the writer stays for _give_up, which saves the segments that are whole
        self._writer = None
        with contextlib.suppress(OSError):
            self._finished_bytes += writer.path.stat().st_size
        apply_retention(self._folder, self._options.retention)

    def _give_up(self, error: Exception) -> None:
        """Stop recording until there is room again; keep every segment that is whole."""
        self._stopped_s = time.monotonic()
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        if not self._error:
            logger.error("recorder: stopped: %s", reason)
        self._error = reason
        writer, self._writer = self._writer, None
        if writer is None:
            return
        self._finished_bytes += writer.bytes_written
        try:
            writer.abort()
            recover_part(writer.part_path)
        except (OSError, VeilError) as problem:
            logger.warning("recorder: %s stays unfinished: %s", writer.part_path.name, problem)


def _lock_folder(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        message = f"recorder: cannot write to {folder}: {error.strerror}"
        raise UsageError(message) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        message = f"recorder: {folder} is in use by another recorder"
        raise UsageError(message) from error
    return descriptor


def _recover(folder: Path) -> list[Path]:
    """Finish the files that an earlier process left open."""
    recovered = []
    for part in sorted(folder.rglob(f"*{SUFFIX}.part")):
        try:
            path = recover_part(part)
        except (OSError, VeilError) as error:
            logger.warning("recorder: %s cannot be finished: %s", part.name, error)
            continue
        if path is not None:
            logger.info("recorder: finished %s", path.name)
            recovered.append(path)
    return recovered


def _unused(path: Path) -> Path:
    """The path, or with a number where a file of that name exists (a clock that was set back)."""
    number = 1
    candidate = path
    while candidate.exists() or candidate.with_name(f"{candidate.name}.part").exists():
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
