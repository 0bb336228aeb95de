"""Writing protected access units into files that any player opens."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from base.errors import MediaError, UsageError
from base.files import sync_folder
from codec.access_unit import AccessUnit
from codec.fmp4 import FragmentEntry, fragment, index, init_segment, set_duration
from codec.muxer import MUXER_OF_SUFFIX, LibavMuxer, temporary_neighbour
from codec.nal import AvcConfig, NalType, join_annexb, nal_type
from codec.packets import SealedPacket, SealedStream, StreamKind

_DEFAULT_FRAME_US = 40_000
_MICROSECONDS = Fraction(1, 1_000_000)


class ClosedOnExit(ABC):
    """A file that grows: as a context manager it is finished at the end, and given up on errors."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file and give it its name."""

    @abstractmethod
    def abort(self) -> None:
        """Stop without finishing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()


class Fmp4Writer(ClosedOnExit):
    """Fragmented MP4 with one fragment per segment; a key unit begins a new one.

    The file appears under its name when it is closed. Until then it is a hidden temporary
    file that vanishes on errors, or, if ``growing``, ``NAME.part``: playable at any time,
    each finished segment on the disk (fsync), kept on errors. ``recover_part`` finishes what
    a power cut left.
    """

    def __init__(
        self, path: Path, width: int, height: int, *, growing: bool = False, mode: int = 0o644
    ) -> None:
        """Create the file.

        Args:
            path: the name that the finished file gets; replaced if it exists.
            width: luma columns.
            height: luma rows.
            growing: write to ``NAME.part`` and keep what is there on errors.
            mode: permissions of the file.

        Raises:
            OSError: the file cannot be created.
        """
        self.path = path
        self.part_path = path.with_name(f"{path.name}.part") if growing else temporary_neighbour(path)
        self._growing = growing
        self._size = (width, height)
        self._file: BinaryIO | None = _create(self.part_path, mode, replace=growing)
        self._bytes_written = 0
        self._init = b""
        self._units: list[AccessUnit] = []
        self._entries: list[FragmentEntry] = []
        self._first_us = 0
        self._end_us = 0

    @property
    def bytes_written(self) -> int:
        """Bytes of all finished segments and the head; safe from any thread."""
        return self._bytes_written

    def write(self, unit: AccessUnit) -> None:
        """Take the next unit. It reaches the file when its segment ends.

        Raises:
            MediaError: the first unit has no SPS and PPS, or a later one changes them.
        """
        self._open_file()
        if unit.is_keyframe and self._units:
            self._end_segment(unit.pts_us)
        if not self._init:
            self._begin(unit)
        elif unit.is_keyframe:
            self._check_parameter_sets(unit)
        self._units.append(unit)

    def end_segment(self) -> None:
        """Write the units taken so far as one fragment; with ``growing`` they are then on the disk."""
        if self._units:
            times = [unit.pts_us for unit in self._units[-2:]]
            frame_us = times[1] - times[0] if len(times) > 1 else _DEFAULT_FRAME_US
            self._end_segment(times[-1] + max(frame_us, 1))

    def close(self) -> None:
        """Write what is left, the index and the duration, and give the file its name.

        If that fails the file is given up, as by ``abort``.
        """
        if self._file is None:
            return
        try:
            self._finish(self._file)
        except BaseException:
            self.abort()
            raise
        self._file = None
        sync_folder(self.path.parent)

    def _finish(self, file: BinaryIO) -> None:
        self.end_segment()
        file.write(index(self._entries))
        if self._init:
            file.seek(0)
            file.write(set_duration(self._init, self._end_us))
        _sync(file)
        file.close()
        self.part_path.replace(self.path)

    def abort(self) -> None:
        """Stop without finishing: keep ``NAME.part`` if growing, else leave nothing."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk refuses what is still in the buffer
                self._file.close()
            self._file = None
            if not self._growing:
                self.part_path.unlink(missing_ok=True)

    def _begin(self, unit: AccessUnit) -> None:
        self._init = init_segment(*self._size, _config(unit, self.path))
        self._first_us = unit.pts_us
        self._write(self._init)

    def _check_parameter_sets(self, unit: AccessUnit) -> None:
        if bytes(_config(unit, self.path)) not in self._init:
            message = f"{self.path.name}: SPS or PPS changed; start a new file"
            raise MediaError(message)

    def _end_segment(self, next_us: int) -> None:
        start_us = max(self._units[0].pts_us - self._first_us, self._end_us)
        entry = FragmentEntry(start_us, self._bytes_written)
        duration_us = max(next_us - self._units[0].pts_us, len(self._units))
        self._write(fragment(len(self._entries) + 1, start_us, self._units, next_us))
        self._entries.append(entry)
        self._end_us = start_us + duration_us
        self._units.clear()

    def _write(self, data: bytes) -> None:
        file = self._open_file()
        file.write(data)
        if self._growing:
            _sync(file)
        self._bytes_written += len(data)

    def _open_file(self) -> BinaryIO:
        if self._file is None:
            message = f"{self.path.name}: is closed"
            raise UsageError(message)
        return self._file


def _config(unit: AccessUnit, path: Path) -> AvcConfig:
    sets = unit.parameter_sets()
    sps = tuple(nal for nal in sets if nal_type(nal) == NalType.SPS)
    pps = tuple(nal for nal in sets if nal_type(nal) == NalType.PPS)
    if not sps or not pps:
        message = f"{path.name}: expected SPS and PPS in the first unit and in every key unit"
        raise MediaError(message)
    return AvcConfig(4, sps, pps)


def _create(path: Path, mode: int, *, replace: bool) -> BinaryIO:
    flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
    return os.fdopen(os.open(path, flags, mode), "w+b")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


class _Writer(Protocol):
    def write(self, unit: AccessUnit) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class ContainerWriter(ClosedOnExit):
    """Access units into .mp4 (fragmented), .mkv, .ts, .mov or .h264, by the name's ending; atomically."""

    def __init__(self, path: Path, width: int, height: int, *, rate: Fraction | int = 25) -> None:
        """Create the file under a temporary name.

        Raises:
            UsageError: the ending is not one of those.
        """
        suffix = path.suffix.lower()
        self._writer: _Writer
        if suffix in (".mp4", ".m4v"):
            self._writer = Fmp4Writer(path, width, height)
        elif suffix in (".mkv", ".mov", ".ts", ".h264"):
            self._writer = _LibavUnitWriter(path, width, height, Fraction(rate))
        else:
            message = f"{path.name}: expected a name that ends in .mp4, .mkv, .mov, .ts or .h264"
            raise UsageError(message)

    def write(self, unit: AccessUnit) -> None:
        """Take the next unit; the first one has to be a key unit with SPS and PPS.

        Raises:
            MediaError: it cannot be written.
        """
        self._writer.write(unit)

    def close(self) -> None:
        """Finish the file and give it its name."""
        self._writer.close()

    def abort(self) -> None:
        """Leave nothing."""
        self._writer.abort()


class _LibavUnitWriter:
    """Access units through one of libav's muxers."""

    def __init__(self, path: Path, width: int, height: int, rate: Fraction) -> None:
        self._path = path
        self._size = (width, height)
        self._rate = rate
        self._muxer: LibavMuxer | None = None
        self._first_us = 0
        self._last_us = -1

    def write(self, unit: AccessUnit) -> None:
        if self._muxer is None:
            self._muxer = self._begin(unit)
        time_us = max(unit.pts_us - self._first_us, self._last_us + 1)
        self._last_us = time_us
        self._muxer.write(SealedPacket(0, unit.is_keyframe, time_us, time_us, None, unit.annexb()))

    def _begin(self, unit: AccessUnit) -> LibavMuxer:
        self._first_us = unit.pts_us
        config = _config(unit, self._path)
        width, height = self._size
        stream = SealedStream(
            index=0,
            kind=StreamKind.VIDEO,
            codec="h264",
            time_base=_MICROSECONDS,
            width=width,
            height=height,
            pixel_format="yuv420p",
            frame_rate=self._rate,
            extradata=join_annexb(config.sps + config.pps),
        )
        return LibavMuxer(self._path, MUXER_OF_SUFFIX[self._path.suffix.lower()], (stream,))

    def close(self) -> None:
        if self._muxer is None:
            message = f"{self._path.name}: no unit to write"
            raise MediaError(message)
        self._muxer.close()

    def abort(self) -> None:
        if self._muxer is not None:
            self._muxer.abort()
