"""Whatever PyAV opens: files, network cameras, V4L2 devices."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from base.errors import MediaError
from camera.sources.backoff import Backoff
from camera.sources.captured import DEFAULT_RATE, Captured, Source
from camera.sources.convert import clear_frame
from camera.sources.ledger import PacketLedger
from camera.sources.pacing import Pacer
from camera.sources.packets import is_coded, sealed_packet, sealed_stream, time_base_of
from camera.sources.timeline import Timeline, to_us

if TYPE_CHECKING:
    from codec.packets import SealedPacket, SealedStream

logger = logging.getLogger(__name__)

# A camera's clock that jumps by more than this (time set by NTP, wrap of a counter) starts a new pass.
_JUMP_BACK_US = 1_000_000
_JUMP_AHEAD_US = 10_000_000
# How much of a stream libav looks at before it is open (its analyzeduration).
_MAX_LOOK_US = 5_000_000
# A camera that is back is found within this, and the time it takes to open.
_MAX_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """How a container is opened and read."""

    format: str | None = None  # FFmpeg's name; None: guess
    options: dict[str, str] = field(default_factory=dict)  # FFmpeg's options of protocol and demuxer
    open_timeout_s: float = 10.0  # network sources only
    read_timeout_s: float = 5.0
    live: bool = False  # reconnect for ever; the clock is the wall clock
    loop: bool = False  # files only
    realtime: bool = False  # files only: play at recorded speed
    start_unix_us: int | None = None  # capture time of the first picture; None: wall clock or the file's own
    decoder_threads: int = 2


class ContainerSource(Source):
    """Reads one container, again and again where asked; gives every packet of every coded stream."""

    def __init__(self, target: str, name: str, options: ContainerOptions) -> None:
        super().__init__(name, drops=options.live or options.realtime)
        self._target = target
        self._options = options
        self._ledger = PacketLedger()
        self._timeline = Timeline()
        self._pacer = Pacer(self._closing) if options.realtime and not options.live else None
        self._backoff = Backoff(cap_s=_MAX_PAUSE_S)
        self._streams: tuple[SealedStream, ...] = ()
        self._indices: dict[int, int] = {}
        self._video_index: int | None = None
        self._last_video_us: int | None = None
        self._told_error = ""
        self._opened_us = 0
        self._last_shown_us: int | None = None
        self._frame_us = round(1_000_000 / DEFAULT_RATE)
        self._start_us = 0
        self._num_passes = 0
        self._num_pictures = 0
        self._num_corrupt = 0

    def __iter__(self) -> Iterator[Captured]:
        if self._options.live:
            yield from self._live_passes()
        else:
            yield from self._file_passes()
        self._state = "ended"

    def trailing_packets(self) -> tuple[SealedPacket, ...]:
        """Packets that no picture took."""
        return self._ledger.rest()

    def sealed_streams(self) -> tuple[SealedStream, ...]:
        """The container's coded streams."""
        return self._streams

    @property
    def corrupt_packets(self) -> int:
        """Packets that the decoder refused; they are sealed all the same."""
        return self._num_corrupt

    def _file_passes(self) -> Iterator[Captured]:
        while not self.is_closing():
            before = self._num_pictures
            try:
                yield from self._one_pass()
            except (av.error.FFmpegError, OSError) as error:
                self._state = "failed"
                message = f"source {self.name}: {_reason(error)}"
                raise MediaError(message) from error
            if self._num_pictures == before and not self.is_closing():
                self._state = "failed"
                message = f"source {self.name}: no picture could be decoded"
                raise MediaError(message)
            if not self._options.loop:
                return
            self._timeline.begin_pass()

    def _live_passes(self) -> Iterator[Captured]:
        while not self.is_closing():
            before = self._num_pictures
            try:
                yield from self._one_pass()
                self._last_error = "the stream ended"
            except (av.error.FFmpegError, OSError, MediaError) as error:
                self._last_error = _reason(error)
            if self.is_closing():
                return
            if self._num_pictures > before:
                self._backoff.reset()
                self._told_error = ""
            self._wait_before_reconnect()

    def _wait_before_reconnect(self) -> None:
        self._state = "reconnecting"
        self._reconnects += 1
        delay_s = self._backoff.next_delay_s()
        # A camera that stays away is told once, not every two seconds.
        level = logging.INFO if self._last_error == self._told_error else logging.WARNING
        self._told_error = self._last_error
        logger.log(level, "source %s lost (%s); next attempt in %.1f s", self.name, self._last_error, delay_s)
        self._ledger.mark_discontinuity()
        self._closing.wait(delay_s)
        self._timeline.begin_pass(now_unix_us=_now_us())

    def _one_pass(self) -> Iterator[Captured]:
        live, is_url = self._options.live, "://" in self._target
        self._opened_us = _now_us()
        self._last_video_us = None
        timeout = (self._options.open_timeout_s, self._options.read_timeout_s)
        with av.open(
            self._target if is_url or self._options.format else f"file:{self._target}",
            format=self._options.format,
            options=self._options.options,
            # A file must not make libav open what it names: playlists can point anywhere.
            container_options={} if is_url or live else {"protocol_whitelist": "file"},
            timeout=timeout if live or is_url else None,
        ) as container:
            video = _main_video(container, self.name)
            self._describe(container, video)
            if live and is_url:
                self._timeline.begin_pass(now_unix_us=self._first_came_us())
            streams = [s for s in container.streams if s is video or s.index in self._indices]
            for packet in container.demux(streams):
                if self.is_closing():
                    return
                yield from self._read(packet, video)

    def _describe(self, container: InputContainer, video: VideoStream) -> None:
        kept = [stream for stream in container.streams if is_coded(stream) and not _is_attachment(stream)]
        self._indices = {stream.index: index for index, stream in enumerate(kept)}
        self._streams = tuple(sealed_stream(index, stream) for index, stream in enumerate(kept))
        if self._num_passes == 0:
            self._ledger.begin(self._streams)
        elif self._streams != self._ledger.streams:
            self._ledger.mark_discontinuity(self._streams)
        self._num_passes += 1
        self._video_index = self._indices.get(video.index)
        video.codec_context.thread_count = 1 if self._options.live else self._options.decoder_threads
        video.codec_context.thread_type = "SLICE" if self._options.live else "AUTO"
        self._rate = video.average_rate or video.guessed_rate or DEFAULT_RATE
        self._frame_us = round(1_000_000 / self._rate)
        if not self._options.live and not self._options.loop:
            self._expected_pictures = _count_pictures(container, video, self._rate)
        if not self._timeline.pinned:
            self._start_us = self._first_time_us(container)

    def _first_time_us(self, container: InputContainer) -> int:
        if self._options.start_unix_us is not None:
            return self._options.start_unix_us
        if self._options.live and "://" in self._target:
            return self._first_came_us()
        acts_as_camera = self._options.live or self._options.realtime
        return _now_us() if acts_as_camera else _file_time_us(container, Path(self._target))

    def _first_came_us(self) -> int:
        """About when the first packet of a network source came, which has just been opened.

        libav has looked at some seconds of the stream, which come in one burst now; before it, connecting may
        have taken long.
        """
        return max(self._opened_us, _now_us() - _MAX_LOOK_US)

    def _read(self, packet: Packet[Stream], video: VideoStream) -> Iterator[Captured]:
        is_video = packet.stream.index == video.index
        if packet.size:
            self._keep(packet, is_video)
        if not is_video:
            return
        try:
            pictures = video.codec_context.decode(packet if packet.size else None)
        except av.error.FFmpegError:
            self._num_corrupt += 1
            return
        for picture in pictures:
            yield self._capture(picture, time_base_of(video))

    def _keep(self, packet: Packet[Stream], is_video: bool) -> None:
        time_base = packet.time_base or time_base_of(packet.stream)
        if self._options.live and is_video:
            self._notice_jump(packet, time_base)
        index = self._indices.get(packet.stream.index, -1)
        pts, dts = self._timeline.shift(index, packet.pts, packet.dts, packet.duration, time_base)
        packet.pts, packet.dts = pts, dts  # the decoder hands these on to its pictures
        if index >= 0:
            self._ledger.add(
                sealed_packet(index, packet, pts, dts),
                key_pts=pts,
                is_video_key=is_video and packet.is_keyframe,
                streams=self._new_streams(index, packet),
            )

    def _new_streams(self, index: int, packet: Packet[Stream]) -> tuple[SealedStream, ...] | None:
        """The streams with the codec header that the packet brings, if it brings a new one."""
        if not packet.has_sidedata("new_extradata"):
            return None
        header = bytes(packet.get_sidedata("new_extradata"))
        if header == self._streams[index].extradata:
            return None
        changed = replace(self._streams[index], extradata=header)
        self._streams = (*self._streams[:index], changed, *self._streams[index + 1 :])
        return self._streams

    def _notice_jump(self, packet: Packet[Stream], time_base: Fraction) -> None:
        stamp = packet.dts if packet.dts is not None else packet.pts
        if stamp is None:
            return
        now_us = to_us(stamp, time_base)
        last_us, self._last_video_us = self._last_video_us, now_us
        if last_us is not None and not -_JUMP_BACK_US <= now_us - last_us <= _JUMP_AHEAD_US:
            logger.warning("source %s: its clock jumped by %.1f s", self.name, (now_us - last_us) / 1e6)
            self._ledger.mark_discontinuity()
            self._timeline.begin_pass(now_unix_us=_now_us())

    def _capture(self, picture: av.VideoFrame, time_base: Fraction) -> Captured:
        stamp = picture.pts if picture.pts is not None else picture.dts
        if stamp is not None:
            shown_us = to_us(stamp, picture.time_base or time_base)
        else:
            shown_us = 0 if self._last_shown_us is None else self._last_shown_us + self._frame_us
        self._last_shown_us = shown_us
        if not self._timeline.pinned:
            self._timeline.start_at(shown_us, self._start_us)
        time_us = self._timeline.time_us(shown_us)
        if self._pacer is not None:
            self._pacer.wait_for(time_us)
        self._state = "running"
        self._num_pictures += 1
        taken = self._ledger.take(picture.pts, picture_is_key=bool(picture.key_frame))
        return Captured(
            picture,
            clear_frame(picture, time_us),
            taken.packets,
            taken.boundary,
            taken.source_key,
            taken.discontinuity,
            taken.streams,
            self._video_index,
            time_us,
            self._timeline.source_us(time_us),
        )


def _main_video(container: InputContainer, name: str) -> VideoStream:
    for stream in container.streams.video:
        if not _is_attachment(stream):
            return stream
    message = f"source {name}: no video stream"
    raise MediaError(message)


def _count_pictures(container: InputContainer, video: VideoStream, rate: Fraction) -> int | None:
    if video.frames:
        return video.frames
    if video.duration and video.time_base:
        return round(video.duration * video.time_base * rate)
    return round(Fraction(container.duration, av.time_base) * rate) if container.duration else None


def _is_attachment(stream: Stream) -> bool:
    return stream.type == "attachment" or bool(stream.disposition & Disposition.attached_pic)


def _file_time_us(container: InputContainer, path: Path) -> int:
    """When the file says it was recorded; else when it was last written."""
    with contextlib.suppress(KeyError, ValueError):
        stated = datetime.fromisoformat(container.metadata["creation_time"])
        if stated.timestamp() > 0:
            return round(stated.timestamp() * 1e6)
    with contextlib.suppress(OSError):
        return path.stat().st_mtime_ns // 1000
    return _now_us()


def _now_us() -> int:
    return time.time_ns() // 1000


def _reason(error: Exception) -> str:
    """Why, without the URL that FFmpeg repeats in its messages and that may hold a password."""
    if isinstance(error, MediaError):
        return str(error)
    text = getattr(error, "strerror", None)
    return str(text) if text else type(error).__name__
