"""What of the original goes into the sealed layer: the camera's own packets, or pictures coded here."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypedDict

from base.errors import UsageError
from camera.sources.captured import Captured
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.reader import Tlv
from codec.records import SealedMode
from codec.region_encoder import RegionEncoder, open_region_encoder
from codec.regions import MIN_TILE_PIXELS, RegionGrid
from codec.sealed_encoder import SealedEncoder, open_sealed_encoder
from codec.stream_info import region_extensions, stream_extensions
from codec.unhurried_encoder import UnhurriedEncoder

logger = logging.getLogger(__name__)

MODES = {
    "none": SealedMode.NONE,
    "copy": SealedMode.COPY,
    "av1": SealedMode.AV1,
    "hevc": SealedMode.HEVC,
    "h264": SealedMode.H264,
    "ffv1": SealedMode.FFV1,
}
FALLBACK = SealedMode.H264
SPLIT_MODES = ("av1", "hevc", "h264", "ffv1")
_FIT_PIXELS = MIN_TILE_PIXELS + 16  # an even split with borders on multiples of 16 has no smaller tiles


@dataclass(frozen=True, slots=True)
class SealedPart:
    """Packets of one picture: ``late`` still belong to the segment before if a new one begins here.

    ``lagging`` is the coded video where it lags: one packet for each picture in order, of this one or of
    earlier ones. Where a segment begins the packets of all earlier pictures are among them.
    """

    late: tuple[SealedPacket, ...]
    packets: tuple[SealedPacket, ...]
    lagging: tuple[SealedPacket, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Payload bytes of all."""
        return sum(len(packet.data) for packet in (*self.late, *self.packets, *self.lagging))


def choose_mode(wanted: str | None, captured: Captured, source_name: str) -> SealedMode:
    """The sealed mode for a source: what was asked for, or copy where the source has coded video.

    A source without coded video (raw camera, pictures, scene) cannot be copied; H.264 takes its place.

    Raises:
        UsageError: unknown mode.
    """
    if wanted is not None and wanted not in MODES:
        message = f"sealed mode: expected one of {', '.join(MODES)}, got {wanted!r}"
        raise UsageError(message)
    can_copy = captured.video_stream is not None
    mode = MODES[wanted] if wanted is not None else (SealedMode.COPY if can_copy else FALLBACK)
    if mode is SealedMode.COPY and not can_copy:
        logger.warning(
            "source %s has no coded video that could be copied; the original is sealed as %s instead",
            source_name,
            FALLBACK.name.lower(),
        )
        return FALLBACK
    return mode


def check_split(regions: tuple[int, int] | None, mode: str | None) -> None:
    """Return if a sealed layer of this mode can be split into regions.

    Raises:
        UsageError: it cannot: only what is coded here can.
    """
    if regions is not None and mode not in SPLIT_MODES:
        reason = {
            None: "the mode has to be named",
            "copy": "copy seals the camera's own coded video, whose pictures cannot be cut",
            "none": "with none nothing is sealed",
        }.get(mode, f"not {mode!r}")
        message = f"sealed regions: expected one of the sealed modes {', '.join(SPLIT_MODES)}: {reason}"
        raise UsageError(message)


def captures_copies(wanted: str | None, captured: Captured) -> bool:
    """Whether :func:`choose_mode` copies this source's packets."""
    return wanted in (None, "copy") and captured.video_stream is not None


class CopiedLayer:
    """Seals the source's own packets bit for bit, audio included."""

    follows_source = True
    lags = False
    regions: RegionGrid | None = None

    def __init__(self, captured: Captured) -> None:
        self._source_streams = captured.streams
        self.streams = _turned_streams(captured)

    def changes(self, captured: Captured) -> bool:
        """Whether this picture's packets belong to other streams than before: a segment has to begin."""
        return captured.streams is not self._source_streams and captured.streams != self._source_streams

    def take(self, captured: Captured, *, cut: bool) -> SealedPart:
        """The packets of this picture."""
        if captured.streams is not self._source_streams:
            self._source_streams = captured.streams
            self.streams = _turned_streams(captured)
        late = captured.boundary or 0 if cut else 0
        return SealedPart(captured.packets[:late], captured.packets[late:])

    def rest(self, packets: tuple[SealedPacket, ...]) -> SealedPart:
        """What is sealed of the source's trailing packets."""
        return SealedPart((), packets)


class _CodingOptions(TypedDict):
    rate: Fraction
    crf: float | None
    preset: str | None
    threads: int
    sample_aspect_ratio: Fraction


class CodedLayer:
    """Codes every picture, whole or in regions; the source's audio is copied beside it."""

    follows_source = False

    def __init__(
        self,
        mode: SealedMode,
        captured: Captured,
        *,
        rate: Fraction,
        crf: float | None = None,
        preset: str | None = None,
        threads: int = 1,
        split: tuple[int, int] | None = None,
        lags: bool = False,
    ) -> None:
        """``lags``: packets may come later than their pictures; AV1 that is not split only."""
        self.lags = lags
        self._mode = mode.name.lower()
        self._rate, self._crf, self._preset, self._threads = rate, crf, preset, threads
        self._split = split
        self._encoder = self._open(captured, split)
        self._source_streams = captured.streams
        self._audio: dict[int, int] = {}
        self._describe(captured)

    def changes(self, captured: Captured) -> bool:
        """Whether the picture's shape or the audio differs from before: a segment has to begin."""
        other_streams = (
            captured.streams is not self._source_streams and captured.streams != self._source_streams
        )
        return other_streams or not self._encoder.accepts(captured.picture)

    def take(self, captured: Captured, *, cut: bool) -> SealedPart:
        """This picture, coded, and the audio that came with it."""
        late = captured.boundary or 0 if cut else 0
        before = self._audio_of(captured.packets[:late])
        closing: tuple[SealedPacket, ...] = ()
        if cut and (self._split is not None or self.changes(captured)):
            if not self._encoder.accepts(captured.picture):
                closing = tuple(self._encoder.flush())
                self._encoder = self._open(captured, self._fitting_split(captured))
            self._describe(captured)
        after = self._audio_of(captured.packets[late:])
        coded = self._encoder.encode(captured.picture, force_key=cut, time_us=captured.source_us)
        if self.lags:
            return SealedPart(before, after, (*closing, *coded))
        return SealedPart((*before, *closing), (*after, *coded))

    def rest(self, packets: tuple[SealedPacket, ...]) -> SealedPart:
        """What is sealed of the source's trailing packets: audio."""
        audio, coded = self._audio_of(packets), tuple(self._encoder.flush())
        return SealedPart((), audio, coded) if self.lags else SealedPart((), (*audio, *coded))

    @property
    def regions(self) -> RegionGrid | None:
        """How the pictures are split; None: they are not."""
        return self._encoder.grid if isinstance(self._encoder, RegionEncoder) else None

    def _fitting_split(self, captured: Captured) -> tuple[int, int] | None:
        """Fewer regions where a camera comes back with a picture too small for all: it goes on recording."""
        if self._split is None:
            return None
        columns, rows = self._split
        picture = captured.picture
        return (
            max(1, min(columns, picture.width // _FIT_PIXELS)),
            max(1, min(rows, picture.height // _FIT_PIXELS)),
        )

    def _open(
        self, captured: Captured, split: tuple[int, int] | None
    ) -> SealedEncoder | RegionEncoder | UnhurriedEncoder:
        options: _CodingOptions = {
            "rate": self._rate,
            "crf": self._crf,
            "preset": self._preset,
            "threads": self._threads,
            "sample_aspect_ratio": _aspect(captured),
        }
        if split is not None:
            return open_region_encoder(self._mode, captured.picture, *split, **options)
        opener = functools.partial(open_sealed_encoder, self._mode, captured.picture, **options)
        return UnhurriedEncoder(functools.partial(opener, unhurried=True)) if self.lags else opener()

    def _describe(self, captured: Captured) -> None:
        self._source_streams = captured.streams
        audio = [stream for stream in captured.streams if stream.kind is StreamKind.AUDIO]
        clock_us = captured.time_us - captured.source_us
        coded: tuple[SealedStream, ...]
        if isinstance(self._encoder, RegionEncoder):
            coded = self._encoder.streams(clock_us)
            audio = [_with_extensions(stream, region_extensions(None, clock_us)) for stream in audio]
        else:
            coded = (self._encoder.stream,)
        self._audio = {stream.index: number for number, stream in enumerate(audio, start=len(coded))}
        copied = (replace(stream, index=self._audio[stream.index]) for stream in audio)
        self.streams: tuple[SealedStream, ...] = (*(_turned(each, captured) for each in coded), *copied)

    def _audio_of(self, packets: tuple[SealedPacket, ...]) -> tuple[SealedPacket, ...]:
        return tuple(
            replace(packet, stream_index=self._audio[packet.stream_index])
            for packet in packets
            if packet.stream_index in self._audio
        )


class NoLayer:
    """Seals nothing: the protected video alone."""

    follows_source = False
    lags = False
    regions: RegionGrid | None = None
    streams: tuple[SealedStream, ...] = ()

    def changes(self, captured: Captured) -> bool:
        """Nothing to change."""
        del captured
        return False

    def take(self, captured: Captured, *, cut: bool) -> SealedPart:
        """Nothing."""
        del captured, cut
        return SealedPart((), ())

    def rest(self, packets: tuple[SealedPacket, ...]) -> SealedPart:
        """Nothing."""
        del packets
        return SealedPart((), ())


SealedLayer = CopiedLayer | CodedLayer | NoLayer


def _aspect(captured: Captured) -> Fraction:
    if captured.video_stream is None:
        return Fraction(0)
    return captured.streams[captured.video_stream].sample_aspect_ratio


def _turned_streams(captured: Captured) -> tuple[SealedStream, ...]:
    return tuple(
        _turned(stream, captured) if stream.index == captured.video_stream else stream
        for stream in captured.streams
    )


def _turned(video: SealedStream, captured: Captured) -> SealedStream:
    """The stream with how players have to turn it, which libav tells with decoded pictures only."""
    return _with_extensions(video, stream_extensions(round(captured.picture.rotation), 0))


def _with_extensions(stream: SealedStream, extensions: tuple[Tlv, ...]) -> SealedStream:
    return replace(stream, extensions=(*stream.extensions, *extensions))
