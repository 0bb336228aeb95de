"""The finished and the growing recordings of one camera, as values. Blocking: run it off the event loop."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from base.errors import FormatError, UsageError
from base.files import open_regular
from codec.fragments import FragmentIndex, protected_fragment, read_index

MAX_LISTED = 2000  # recordings of one day; two weeks of ten-minute files
MAX_DAYS = 3660
CACHED = 64  # indexes in memory
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}_(\d{8}T\d{6}\.\d{3})Z(-\d{1,6})?\.mp4(\.part)?")


class NoRecordingError(UsageError):
    """There is no recording of that name, or not any more."""


@dataclass(frozen=True, slots=True)
class RecordingEntry:
    """One file.

    Attributes:
        day: folder, as ``2026-11-30`` (UTC).
        name: file name.
        start_s: Unix seconds of its first picture.
        duration_s: as far as it is written.
        num_bytes: of the file, sealed layer included.
        is_open: still growing.
    """

    day: str
    name: str
    start_s: float
    duration_s: float
    num_bytes: int
    is_open: bool


class RecordingFolder:
    """Reads one camera's folder of recordings; safe from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._cache: OrderedDict[Path, tuple[tuple[int, int], FragmentIndex]] = OrderedDict()

    def days(self) -> list[str]:
        """The days that have recordings, oldest first."""
        try:
            names = [path.name for path in self._folder.iterdir() if _DAY.fullmatch(path.name)]
        except OSError:
            return []
        return sorted(names)[-MAX_DAYS:]

    def list_day(self, day: str) -> list[RecordingEntry]:
        """The recordings of a day, oldest first, at most 2000; files that are not ours are passed over.

        Raises:
            NoRecordingError: not a day.
        """
        return list(self._entries(day))

    def path(self, day: str, name: str) -> Path:
        """The file of that day and name, which may be gone by now.

        Raises:
            NoRecordingError: not the name of a recording.
        """
        if not _DAY.fullmatch(day) or not _NAME.fullmatch(name):
            raise NoRecordingError("no such recording")
        return self._folder / day / name

    def index(self, day: str, name: str) -> FragmentIndex:
        """The segments of a recording.

        Raises:
            NoRecordingError: it is not there, or not one of ours.
        """
        return self._index(self.path(day, name))

    def segment(self, day: str, name: str, number: int) -> bytes:
        """Segment ``number`` (from 0) without its sealed layer, as ``moof`` and ``mdat``.

        Raises:
            NoRecordingError: there is no such segment.
        """
        path = self.path(day, name)
        fragments = self._index(path).fragments
        if not 0 <= number < len(fragments):
            message = f"no segment {number}, the recording has {len(fragments)}"
            raise NoRecordingError(message)
        place = fragments[number]
        try:
            with open_regular(path) as file:
                file.seek(place.offset)
                return protected_fragment(file.read(place.num_bytes), number + 1)
        except (OSError, FormatError) as error:
            raise NoRecordingError("the segment cannot be read") from error

    def _entries(self, day: str) -> Iterator[RecordingEntry]:
        if not _DAY.fullmatch(day):
            raise NoRecordingError("day: expected YYYY-MM-DD")
        try:
            names = sorted(path.name for path in (self._folder / day).iterdir() if _NAME.fullmatch(path.name))
        except OSError:
            return
        for name in names[-MAX_LISTED:]:
            path = self._folder / day / name
            try:
                num_bytes, index = path.stat().st_size, self._index(path)
            except (OSError, NoRecordingError):
                continue
            if index.fragments:
                yield RecordingEntry(
                    day, name, _start_s(name), index.duration_us / 1e6, num_bytes, name.endswith(".part")
                )

    def _index(self, path: Path) -> FragmentIndex:
        try:
            with open_regular(path) as file:
                stat = path.stat()
                stamp = stat.st_mtime_ns, stat.st_size
                with self._lock:
                    known = self._cache.get(path)
                if known is not None and known[0] == stamp:
                    return known[1]
                index = read_index(file)
        except (OSError, FormatError, UsageError) as error:
            raise NoRecordingError("no such recording") from error
        with self._lock:
            self._cache[path] = stamp, index
            self._cache.move_to_end(path)
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return index


def _start_s(name: str) -> float:
    match = _NAME.fullmatch(name)
    assert match is not None  # noqa: S101  # the caller looked; for the type checker
    return datetime.strptime(match[1], "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC).timestamp()
