"""Reading H.264 access units out of files and streams, and writing them. Nothing is decoded here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self
from urllib.parse import urlsplit, urlunsplit

import av
from av.codec.context import CodecContext
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from base.errors import FormatError, MediaError
from codec.access_unit import AccessUnit
from codec.carrier import restore
from codec.limits import DEFAULT_LIMITS, Limits
from codec.nal import AvcConfig, parameter_sets
from codec.recovery import is_cut_short, recover_part
from codec.writers import ContainerWriter, Fmp4Writer

__all__ = [
    "ContainerWriter",
    "Fmp4Writer",
    "ReadProblem",
    "UnitReader",
    "VideoTrack",
    "read_access_units",
    "recover_part",
]

_LOG = logging.getLogger(__name__)

# A file may only ever be one of these: playlists and their like would make libav open other
# files or hosts that a stranger's recording names.
_FILE_FORMATS = "mov,matroska,mpegts,mpeg,flv,avi,h264"
_URL_FORMATS = _FILE_FORMATS + ",rtsp"
_URL_PROTOCOLS = "http,https,tcp,tls,udp,rtp,rtsp,srtp"
_PROBE_BYTES = 32 * 1024 * 1024  # the first unit may be as large as FILE_UNIT_CAP_BYTES
_OPEN_TIMEOUT_S = 10.0
_READ_TIMEOUT_S = 30.0
_OPEN_ENDED = ("mpegts", "h264")
_DEFAULT_RATE = Fraction(25)
_SHOWN = ("video", "audio", "subtitle")  # tracks that a player presents; others it ignores

Input = str | Path | BinaryIO


@dataclass(frozen=True, slots=True)
class VideoTrack:
    """What the container says about its video.

    Attributes:
        container: libav's name of the format, such as ``mov,mp4,m4a,3gp,3g2,mj2``.
        time_base: seconds per tick of the container's times.
        rate: frames per second; 25 if the container does not tell.
        parameter_sets: SPS and PPS from the container's header; empty if it has none.
    """

    container: str
    width: int
    height: int
    time_base: Fraction
    rate: Fraction
    parameter_sets: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ReadProblem:
    """Something in a file that could not be read.

    Attributes:
        at_us: time of the unit concerned, or of the last one before; None before the first.
        reason: what is wrong, for people.
    """

    at_us: int | None
    reason: str


class UnitReader:
    """Iterator over the access units of one H.264 video, in decoding order.

    Damage does not stop it where libav can go on: damaged units are left out. After the
    iteration, ``problems`` says what was. Key units always carry SPS and PPS: where a
    muxer moved them into the container's header, they are put back. So do units at which
    the container changes them.
    """

    def __init__(
        self, container: InputContainer, limits: Limits = DEFAULT_LIMITS, *, is_short: bool = False
    ) -> None:
        """Take an open container, and whether its file is known to break off. Use ``read_access_units``.

        Raises:
            MediaError: it holds no H.264 video.
        """
        self._container = container
        self._limits = limits
        self._is_short = is_short
        self._stream = _video(container)
        self._length_size = 0
        self._sets: tuple[bytes, ...] = ()
        base = self._stream.time_base or Fraction(1, 1_000_000)
        self._numerator, self._denominator = base.numerator * 1_000_000, base.denominator
        self._last_us: int | None = None
        self._problems: list[ReadProblem] = []
        self._use_extradata(self._stream.codec_context.extradata or b"")
        self._units = restore(self._read(), limits)
        self.track = _track(container, self._stream, self._sets)

    @property
    def last_may_be_cut(self) -> bool:
        """Whether the format cannot tell if its last unit is whole: TS and raw H.264 mark no ends."""
        return self.track.container in _OPEN_ENDED

    @property
    def other_tracks(self) -> tuple[str, ...]:
        """What else a player may show or play: ``video``, ``audio`` or ``subtitle`` for each track.

        Covers count as video. Nothing that is read here says anything about these tracks.
        """
        streams = self._container.streams
        return tuple(s.type for s in streams if s.index != self._stream.index and s.type in _SHOWN)

    @property
    def problems(self) -> tuple[ReadProblem, ...]:
        """What could not be read so far."""
        return tuple(self._problems)

    def __iter__(self) -> Iterator[AccessUnit]:
        return self

    def __next__(self) -> AccessUnit:
        return next(self._units)

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> Iterator[AccessUnit]:
        try:
            for packet in self._container.demux(self._stream):
                if packet.size:
                    yield from self._unit(packet)
        except av.FFmpegError as error:
            self._note(f"the file breaks off: {error.strerror or error}")
        if self._is_short:
            self._note("the file is shorter than it says: it breaks off")

    def _unit(self, packet: Packet[VideoStream]) -> Iterator[AccessUnit]:
        time_us = self._time_us(packet)
        if packet.is_corrupt:
            self._note("a unit is cut short or damaged in transport")
            return
        sets = self._sets
        try:
            if packet.has_sidedata("new_extradata"):
                self._use_extradata(bytes(packet.get_sidedata("new_extradata")))
            unit = self._parse(packet, time_us)
        except FormatError as error:
            self._note(str(error))
            return
        if not unit.has_picture:
            self._note("a unit without a picture")
            return
        # Sets that the container changes in mid-segment are in force from here on, so a check must see them.
        is_changed = self._sets != sets
        yield unit.with_parameter_sets(self._sets) if unit.is_keyframe or is_changed else unit

    def _parse(self, packet: Packet[VideoStream], time_us: int) -> AccessUnit:
        data = bytes(packet)
        if self._length_size:
            return AccessUnit.from_avcc(data, time_us, self._length_size, self._limits)
        return AccessUnit.from_annexb(data, time_us, self._limits)

    def _use_extradata(self, extradata: bytes) -> None:
        try:
            if extradata[:1] == b"\x01":
                self._length_size = AvcConfig.parse(extradata, self._limits).length_size
            self._sets = parameter_sets(extradata, self._limits)
        except FormatError as error:
            self._note(f"the container's parameter sets are damaged: {error}")

    def _time_us(self, packet: Packet[VideoStream]) -> int:
        ticks = packet.pts if packet.pts is not None else packet.dts
        if ticks is not None and self.track.container != "h264":
            self._last_us = _rounded(ticks * self._numerator, self._denominator)
        elif self._last_us is None:
            self._last_us = 0
        else:
            self._last_us += round(1_000_000 / self.track.rate)
        return self._last_us

    def _note(self, reason: str) -> None:
        _LOG.debug("reading: %s", reason)
        self._problems.append(ReadProblem(self._last_us, reason))


def _rounded(value: int, divisor: int) -> int:
    """``round(Fraction(value, divisor))`` without the fraction: halves go to the even neighbour."""
    whole, rest = divmod(value, divisor)
    return whole + (2 * rest > divisor or (2 * rest == divisor and whole % 2 == 1))


def read_access_units(source: Input, limits: Limits = DEFAULT_LIMITS) -> UnitReader:
    """Open an MP4, fragmented MP4, MOV, MKV, TS, FLV, AVI or raw H.264 file, file object or URL.

    Memory stays bounded by ``limits`` and libav's probing (32 MiB).

    Args:
        source: path, seekable binary file object, or ``http(s)://`` or ``rtsp(s)://`` URL.
        limits: bounds on the units.

    Raises:
        MediaError: nothing can be read: no such file, another format, no H.264 video.
    """
    container, is_short = _open(source)
    try:
        return UnitReader(container, limits, is_short=is_short)
    except BaseException:
        container.close()
        raise


def _open(source: Input) -> tuple[InputContainer, bool]:
    """The open container, and whether it is a file that was cut."""
    if isinstance(source, str) and "://" in source:
        options = {"format_whitelist": _URL_FORMATS, "protocol_whitelist": _URL_PROTOCOLS}
        options["rtsp_transport"] = "tcp"  # over UDP, packets of units as large as ours get lost
        return _av_open(source, _redact(source), options, timeout=(_OPEN_TIMEOUT_S, _READ_TIMEOUT_S)), False
    options = {"format_whitelist": _FILE_FORMATS, "protocol_whitelist": "file"}
    if isinstance(source, str | Path):
        path = Path(source)
        try:
            with path.open("rb") as file:
                head, is_short = _peek(file)
        except OSError as error:
            message = f"{path}: {error.strerror}"
            raise MediaError(message) from error
        container = _av_open(f"file:{path}", str(path), options, container_format=_format_of(head))
    else:
        head, is_short = _peek(source)
        container = _av_open(source, "file", options, container_format=_format_of(head))
    return container, is_short


def _peek(file: BinaryIO) -> tuple[bytes, bool]:
    """The first bytes, and whether the file breaks off; leaves it at its beginning."""
    is_short = is_cut_short(file)
    file.seek(0)
    head = file.read(5)
    file.seek(0)
    return head, is_short


def _av_open(
    file: str | BinaryIO,
    name: str,
    options: dict[str, str],
    *,
    container_format: str | None = None,
    timeout: tuple[float, float] | None = None,
) -> InputContainer:
    try:
        return av.open(
            file,
            "r",
            format=container_format,
            container_options=options | {"probesize": str(_PROBE_BYTES)},
            metadata_errors="replace",
            timeout=timeout,
        )
    except (av.FFmpegError, ValueError) as error:
        reason = error.strerror if isinstance(error, av.FFmpegError) else str(error)
        message = f"{name}: not a readable video: {reason}"
        raise MediaError(message) from error


def _redact(url: str) -> str:
    """The URL without user name, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _format_of(head: bytes) -> str | None:
    """Name raw H.264 to libav, whose probing gives up on a large SEI; MPEG-PS also begins with 00 00 01."""
    for start_code in (b"\x00\x00\x01", b"\x00\x00\x00\x01"):
        first = head[len(start_code) : len(start_code) + 1]
        if head.startswith(start_code) and b"\x00" < first < b"\x80":
            return "h264"
    return None


def _codec_context(stream: Stream) -> CodecContext | None:
    return stream.codec_context  # None for codecs that libav has no decoder for, whatever the stubs say


def _video(container: InputContainer) -> VideoStream:
    names: list[str] = []
    for stream in container.streams.video:
        context = _codec_context(stream)
        name = context.name if context is not None else "unknown"
        if name == "h264":
            return stream
        names.append(name)
    message = f"no H.264 video; found {', '.join(names) or 'no video at all'}"
    raise MediaError(message)


def _rate(container: InputContainer, stream: VideoStream) -> Fraction:
    if container.format.name == "h264":  # libav counts at 25; the SPS may know better
        return stream.codec_context.framerate or _DEFAULT_RATE
    return stream.average_rate or stream.guessed_rate or _DEFAULT_RATE


def _track(container: InputContainer, stream: VideoStream, sets: tuple[bytes, ...]) -> VideoTrack:
    return VideoTrack(
        container=container.format.name,
        width=stream.width,
        height=stream.height,
        time_base=stream.time_base or Fraction(1, 1_000_000),
        rate=_rate(container, stream),
        parameter_sets=sets,
    )
