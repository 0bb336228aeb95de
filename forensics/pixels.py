"""Restore a recording from its pixels alone, for copies that were coded again and lost their SEI.

What is needed beside the picture is the key, and so the header of the segment it was hidden under. It is
in the recording itself, or in any other copy or sidecar that still has it. Which segment a picture
belongs to is found by trying keys: under the right one neighbouring latents agree, so neither frame
rates nor cuts have to be known. Generated pixels: labelled everywhere, never evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
from av.video.frame import VideoFrame

from base.errors import FormatError, KeyUnavailable, Malformed, MediaError, NoMatchingIdentity, UsageError
from base.frames import ProtectedFrame
from codec.limits import DEFAULT_LIMITS, Limits
from codec.pixel_path import PixelKeys, PixelReader
from codec.planes import planes_of
from codec.records import SegmentHeader
from codec.segments import read_segments
from forensics.canonical import JsonObject
from forensics.input_file import Advance, Evidence, printable_name
from forensics.ledger import Ledger, default_ledger_path
from forensics.opening import Opening, Purpose, Request, open_recorded, ranges_text, refuse
from forensics.output_folder import OutputFolder
from forensics.pixel_report import PixelFrame, PixelOutcome, PixelReport
from forensics.restored import RestoredOrigin
from forensics.restored_writer import RestoredWriter
from keys.source import KeySource
from models.pixels import Latents, PixelModel, load_pixel_model

MIN_COHERENCE = 9.0
"""Standard deviations above a wrong key's. Trying a million keys on a million pictures would not reach it."""

_MAX_SIDE = 8_192
"""Luma pixels. A header may be anybody's, and rotations take memory by its size."""

_LEAST_STEP_US = 1_000  # between two pictures, where the container's times repeat or run back
_MAX_HEADERS = 500_000
_NEAR = 3  # headers on either side that are tried before all others


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """How to restore.

    Attributes:
        purpose: for the ledger and the report.
        headers_from: another copy, or a sidecar, that still has the headers; None: the recording itself.
        delivered: segments (by their place in the headers' file) whose exact original is there already.
        overwrite: replace an output that exists.
        threads: of the networks.
    """

    purpose: Purpose = field(default_factory=Purpose)
    headers_from: Path | None = None
    delivered: frozenset[int] = frozenset()
    overwrite: bool = False
    threads: int = 2
    limits: Limits = DEFAULT_LIMITS


def read_headers(path: Path, limits: Limits = DEFAULT_LIMITS) -> dict[int, SegmentHeader]:
    """Headers of segments with something hidden in their pixels, by the segments' place in the file.

    None in a file of another codec: it was coded again.

    Raises:
        MediaError: the file cannot be read.
        UsageError: more than half a million.
    """
    headers: dict[int, SegmentHeader] = {}
    with Evidence(path) as evidence:
        try:
            opened = evidence.units(limits)
        except MediaError:
            return headers
    with opened as units:
        for place, view in enumerate(read_segments(units.reader, limits)):
            try:
                header = view.header(limits)
                hidden = header is not None and header.pixels is not None
            except FormatError:
                continue  # this segment cannot be opened; the others can
            if header is not None and hidden:
                headers[place] = header
            if len(headers) > _MAX_HEADERS:
                raise UsageError(f"{path.name}: more than {_MAX_HEADERS} segments")
    return headers


def restore_pixels(
    path: Path,
    out: Path,
    source: KeySource,
    *,
    ledger: Ledger | None = None,
    options: RestoreOptions | None = None,
    advance: Advance | None = None,
) -> PixelReport:
    """Write an approximation of the original to ``out``, and beside it ``out`` + ``.report.json``.

    Args:
        path: a protected recording, however often it was coded again.
        out: .mp4, .m4v, .mov or .mkv.
        source: identities or a grant.
        ledger: where the opening is written before it happens; default `default_ledger_path`.
        options: see there.
        advance: told how far it is.

    Raises:
        UsageError: no header is at hand, they name networks that are not installed, or a bad output name.
        Malformed: they name a size that cannot be.
        NoMatchingIdentity: no key at hand is for these headers; the attempt is in the ledger.
        MediaError: the input cannot be read, or the output not written.
    """
    options = options or RestoreOptions()
    for target in (out, report_path(out)):
        if target.exists() and not options.overwrite:
            raise UsageError(f"{target}: exists already")
    headers = read_headers(options.headers_from or path, options.limits)
    if not headers:
        where = (options.headers_from or path).name
        raise UsageError(
            f"{where}: no segment header with a pixel path; "
            "name a copy or sidecar that still has them (--headers-from)"
        )
    size = _size_of(headers)
    model = _model_for(headers, options.threads)
    with Evidence(path) as evidence:
        job = _Job(evidence, out, source, headers=headers, size=size, model=model, options=options)
        return job.run(ledger or Ledger(default_ledger_path()), advance or (lambda _: None))


def report_path(out: Path) -> Path:
    """Return where the report of an output goes."""
    return out.with_name(out.name + ".report.json")


def _model_for(headers: dict[int, SegmentHeader], threads: int) -> PixelModel:
    """The networks that hid; all headers of a recording name the same."""
    names = {(record.setting, record.model_id) for each in headers.values() if (record := each.pixels)}
    if len(names) != 1:
        raise UsageError(f"pixel path: expected headers of one network, got {len(names)}; cut it in parts")
    ((setting, model_id),) = names
    model = load_pixel_model(setting, threads=threads)
    if model.model_id != model_id:
        raise UsageError(
            f"pixel path: hidden with networks {model_id.hex()}, "
            f"installed are {model.model_id.hex()} ({model.name})"
        )
    return model


@dataclass(frozen=True, slots=True)
class _Found:
    """The key that fits a picture."""

    place: int
    latents: Latents
    coherence: float


class _KeyFinder:
    """Finds the segment a picture belongs to: the one before, its neighbours, then all."""

    def __init__(self, reader: PixelReader, headers: dict[int, SegmentHeader], source: KeySource) -> None:
        self._reader = reader
        self._headers = headers
        self._source = source
        self._places = sorted(headers)
        self._near = 0  # index in places
        self._keys: dict[int, PixelKeys] = {}
        self._hopeless = 0  # pictures in a row that fitted nowhere

    def find(self, revealed: Latents) -> _Found | None:
        """The key under which the latents hang together; None if none does."""
        for index in self._order():
            place = self._places[index]
            keys = self._keys_of(place)
            if keys is None:
                continue
            latents = self._reader.turn_back(revealed, keys)
            found = self._reader.fit(latents)
            if found >= MIN_COHERENCE:
                self._near, self._hopeless = index, 0
                return _Found(place, latents, found)
        self._hopeless += 1
        return None

    def _order(self) -> Iterator[int]:
        """Near ones first. All of them only for every 25th picture of a row that fits nowhere."""
        near = [self._near, *(self._near + step for d in range(1, _NEAR + 1) for step in (d, -d))]
        inside = [index for index in near if 0 <= index < len(self._places)]
        yield from inside
        if self._hopeless % 25 == 0:
            yield from (index for index in range(len(self._places)) if index not in inside)

    def _keys_of(self, place: int) -> PixelKeys | None:
        if place not in self._keys:
            if len(self._keys) > 64:
                self._keys.clear()
            try:
                self._keys[place] = self._source.segment_keys(self._headers[place])
            except KeyUnavailable:
                return None
        return self._keys[place]


class _Job:
    """One restoring."""

    def __init__(
        self,
        evidence: Evidence,
        out: Path,
        source: KeySource,
        *,
        headers: dict[int, SegmentHeader],
        size: tuple[int, int],
        model: PixelModel,
        options: RestoreOptions,
    ) -> None:
        self._evidence = evidence
        self._out = out
        self._source = source
        self._headers = headers
        self._size = size
        self._model = model
        self._options = options
        self._digest = evidence.describe()

    def run(self, ledger: Ledger, advance: Advance) -> PixelReport:
        request = self._request()
        if not any(self._source.covers(header) for header in self._headers.values()):
            why = f"{self._digest.name}: none of the keys at hand is for its segments"
            raise refuse(ledger, request, NoMatchingIdentity(why))
        with open_recorded(ledger, request, self._source) as opening, OutputFolder(self._out) as folder:
            clip = folder.path_for(self._out.name)
            frames = self._write(clip, opening, advance)
            self._evidence.check_unchanged()
            has_output = any(frame.outcome is PixelOutcome.RESTORED for frame in frames)
            output = folder.describe(clip) if has_output else None
            report = PixelReport(
                self._digest,
                output,
                tuple(frames),
                f"{self._model.name} {self._model.model_id.hex()}",
                opening.used_ids,
                self._options.purpose,
                opening.start.seq,
                opening.start.hash,
            )
            facts: JsonObject = {
                "path": "pixels",
                "exit_code": report.exit_code,
                "output": None if output is None else output.as_json(),
                "report_sha256": folder.add_json(report_path(self._out).name, report.as_json()),
            }
            opening.finish("restored" if has_output else "nothing restored", facts)
            outputs = (report_path(self._out), *((self._out,) if has_output else ()))
            folder.publish(outputs, overwrite=self._options.overwrite)
            return report

    def _write(self, clip: Path, opening: Opening, advance: Advance) -> list[PixelFrame]:
        reader = PixelReader(self._model)
        finder = _KeyFinder(reader, self._headers, opening)
        clock = _Clock(self._headers)
        frames: list[PixelFrame] = []
        writer: RestoredWriter | None = None
        try:
            for picture, share in read_pictures(self._evidence.path, self._size):
                revealed = reader.reveal(picture)
                found = finder.find(revealed)
                time_us = clock.time(picture.time_us, None if found is None else found.place)
                frames.append(self._frame(time_us, found))
                if found is not None and frames[-1].outcome is PixelOutcome.RESTORED:
                    if writer is None:
                        writer = self._writer(clip, picture)
                    restored = reader.restore(picture, revealed, found.latents)
                    writer.write(restored)
                advance(share)
        except BaseException:
            if writer is not None:
                writer.abort()
            raise
        if writer is not None:
            writer.close()
        return frames

    def _frame(self, time_us: int, found: _Found | None) -> PixelFrame:
        if found is None:
            return PixelFrame(time_us, PixelOutcome.UNREADABLE, None, 0.0)
        is_there = found.place in self._options.delivered
        outcome = PixelOutcome.SEALED if is_there else PixelOutcome.RESTORED
        return PixelFrame(time_us, outcome, found.place, found.coherence)

    def _writer(self, clip: Path, picture: ProtectedFrame) -> RestoredWriter:
        origin = RestoredOrigin(self._digest.sha256, self._model.model_id.hex())
        return RestoredWriter(clip, picture.width, picture.height, origin)

    def _request(self) -> Request:
        headers = self._headers.values()
        return Request(
            input=self._digest,
            output_name=printable_name(self._out),
            camera_ids=tuple(dict.fromkeys(each.camera_id.hex() for each in headers)),
            identity_ids=self._source.key_ids,
            asked_us=(None, None),
            segments=ranges_text(sorted(set(self._headers) - self._options.delivered)),
            purpose=self._options.purpose,
            grant_id=self._source.grant_id,
        )


class _Clock:
    """Container times to capture times: each segment's first picture was taken when its header says."""

    def __init__(self, headers: dict[int, SegmentHeader]) -> None:
        self._headers = headers
        self._place: int | None = None
        self._offset_us = 0

    def time(self, shown_us: int, place: int | None) -> int:
        """Unix microseconds of a picture that the container shows at ``shown_us``."""
        if place is not None and place != self._place:
            self._place = place
            self._offset_us = self._headers[place].start_us - shown_us
        return shown_us + self._offset_us


def _size_of(headers: dict[int, SegmentHeader]) -> tuple[int, int]:
    first = headers[min(headers)]
    size = first.width, first.height
    if not all(2 <= side <= _MAX_SIDE and side % 2 == 0 for side in size):
        raise Malformed(
            f"header: pictures of {first.width}x{first.height}, expected even sides up to {_MAX_SIDE}"
        )
    return size


def read_pictures(path: Path, size: tuple[int, int]) -> Iterator[tuple[ProtectedFrame, float]]:
    """Decode a video of any codec, scaled back to ``size`` (width, height) where somebody scaled it.

    Yields:
        The picture with its time in the container (microseconds from the first, rising), and the share done.

    Raises:
        MediaError: not a video, or nothing decodes.
    """
    try:
        with av.open(f"file:{path}") as container:
            stream = container.streams.video[0]
            total = float(container.duration or 0) / av.time_base
            first: Fraction | None = None
            time_us = -_LEAST_STEP_US
            for frame in container.decode(stream):
                if frame.width > _MAX_SIDE or frame.height > _MAX_SIDE:
                    raise MediaError(f"{path.name}: {frame.width}x{frame.height} is too large")
                shown = Fraction(0) if frame.pts is None else frame.pts * (frame.time_base or Fraction(1))
                first = shown if first is None else first
                share = min(1.0, float(shown - first) / total) if total else 0.0
                time_us = max(int((shown - first) * 1_000_000), time_us + _LEAST_STEP_US)
                yield _protected(frame, size, time_us), share
    except (av.FFmpegError, IndexError) as error:
        raise MediaError(f"{path.name}: cannot be decoded: {error}") from error


def _protected(frame: VideoFrame, size: tuple[int, int], time_us: int) -> ProtectedFrame:
    planar = frame.reformat(width=size[0], height=size[1], format="yuv420p")
    luma, cb, cr = planes_of(planar)
    return ProtectedFrame(luma, cb, cr, time_us)
