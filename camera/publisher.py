"""The last stage: a protected picture and its captured original become published units."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from base.errors import MediaError, UsageError
from base.frames import ProtectedFrame
from camera.broadcast import Broadcast
from camera.cutter import CutRules, SegmentCutter
from camera.fitting import fitted
from camera.rendition import SubRendition
from camera.sealed_layer import (
    CodedLayer,
    CopiedLayer,
    NoLayer,
    SealedLayer,
    captures_copies,
    check_split,
    choose_mode,
)
from camera.sources.captured import Captured
from camera.stats import Meter
from codec.access_unit import AccessUnit
from codec.h264 import FILE_LOOKAHEAD, ColourTags, ProtectedEncoder
from codec.limits import FILE_UNIT_CAP_BYTES, LIVE_UNIT_CAP_BYTES
from codec.packets import SealedPacket
from codec.pixel_path import PixelHider
from codec.pixels_record import PixelsRecord
from codec.records import SealedMode
from codec.sealer import SealedUnit, SealerParams, SegmentSealer
from keys import CameraKey, EpochRing
from models.pixels import PixelModel, load_pixel_model

logger = logging.getLogger(__name__)

_MICROSECONDS = Fraction(1, 1_000_000)
_UNSPECIFIED = 2
_HD_LINES = 720
_SD_TAG, _HD_TAG = 6, 1  # SMPTE 170M and BT.709 in H.273
# Sealing 720p on two cores beside the protector leaves no time for more.
LIVE_H264_PRESET = "ultrafast"
_MAX_RATE = Fraction(120)


@dataclass(frozen=True, slots=True)
class CodingOptions:
    """How both layers are coded."""

    sealed: str | None = None  # none, copy, av1, hevc, h264, ffv1; None: copy where possible, else h264
    sealed_crf: float | None = None  # quality of a sealed layer coded here; None: the codec's default
    sealed_regions: tuple[int, int] | None = None  # columns, rows; None: the original is sealed as one
    sealed_preset: str | None = None  # None: the codec's default; a live camera's H.264 uses a faster one
    pixels: str | None = None  # off, low, high: also hide the original in the picture; see choose_pixels
    crf: float = 26.0  # of the protected layer
    preset: str = "veryfast"
    max_bitrate_bps: int | None = None
    threads: int = 1  # per encoder
    unit_cap_bytes: int | None = None  # None: 160 kB, and 8 MiB in a file with an ffv1 layer
    cut: CutRules = field(default_factory=CutRules)
    sub_scale: int = 2  # the smaller rendition's divisor of width and height; 0: there is none
    sub_crf: float = 30.0

    def __post_init__(self) -> None:
        check_split(self.sealed_regions, self.sealed)


class Publisher:
    """Encodes, seals and publishes; opens its encoders with the first picture. One thread."""

    def __init__(
        self,
        options: CodingOptions,
        *,
        camera_key: CameraKey,
        epochs: EpochRing | None,
        model_id: bytes,
        broadcast: Broadcast,
        meter: Meter,
        source_name: str = "",
        live: bool = True,
        strength: int = 0,
        sub_broadcast: Broadcast | None = None,
    ) -> None:
        self._options = options
        self._camera_key = camera_key
        self._epochs = epochs
        self._model_id = model_id
        self._broadcast = broadcast
        self._meter = meter
        self._source_name = source_name
        self._live = live
        self._strength = strength
        self._opened: _Opened | None = None
        self._cutter: SegmentCutter | None = None
        self.epoch = ""
        self.sub = (
            SubRendition(sub_broadcast, camera_key, scale=options.sub_scale, crf=options.sub_crf)
            if sub_broadcast is not None and options.sub_scale
            else None
        )

    @property
    def sealed_mode(self) -> str:
        """Name of the sealed mode in use; empty before the first picture."""
        return "" if self._opened is None else self._opened.mode.name.lower()

    @property
    def pixels(self) -> str:
        """Setting of the pixel path in use: off, low or high."""
        pixels = None if self._opened is None else self._opened.sealer.params.pixels
        return "off" if pixels is None else pixels.setting

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the protected picture; zeros before the first."""
        return (0, 0) if self._opened is None else (self._opened.width, self._opened.height)

    def plan(self, captured: Captured, key_requested: threading.Event) -> bool:
        """Whether a segment is to begin with this picture; for every picture once, before it is protected.

        May be called from another thread than the rest. ``key_requested`` is set when somebody asks for a
        key frame; it is cleared where a segment begins.
        """
        if self._cutter is None:
            copied = captures_copies(self._options.sealed, captured)
            self._cutter = SegmentCutter(self._options.cut, follows_source=copied)
        starts = self._cutter.starts_segment(
            captured.time_us,
            source_key=captured.source_key,
            discontinuity=captured.discontinuity,
            requested=key_requested.is_set(),
        )
        if starts:
            key_requested.clear()
        return starts

    def push(self, captured: Captured, protected: ProtectedFrame, rate: Fraction, *, starts: bool) -> None:
        """Publish one picture.

        Args:
            captured: its original and packets.
            protected: what may be shown.
            rate: nominal pictures per second of the source; used with the first picture.
            starts: whether a segment was planned to begin here. One begins also where the source's streams
                change, and where the open one holds as many sealed bytes as it may.
        """
        opened = self._opened
        if opened is None:
            opened = self._opened = self._open(captured, protected, rate)
        full = opened.segment_bytes >= self._options.cut.max_bytes
        cut = starts or full or not opened.num_units or opened.layer.changes(captured)
        with self._meter.timed("seal_encode"):
            part = opened.layer.take(captured, cut=cut)
        self._meter.count("sealed_bytes", part.num_bytes)
        opened.lagging += part.lagging
        if cut:
            opened.units += opened.encoder.flush()
            self._catch_up(opened, closing=True)
            part = replace(part, lagging=tuple(opened.lagging))  # the others closed the segment before
            opened.segment_bytes = 0
            self._begin(opened)
        opened.segment_bytes += part.num_bytes
        published = protected
        if opened.hider is not None:
            with self._meter.timed("hide"):
                clear = fitted(captured.frame, (opened.width, opened.height))
                published = opened.hider.hide(clear, protected)
        with self._meter.timed("encode"):
            opened.units += opened.encoder.push(published, force_key=cut)
        late, packets = (part.late, part.packets) if opened.num_units else ((), (*part.late, *part.packets))
        opened.waiting.append(_Picture(cut, late, packets))
        self._catch_up(opened)
        if self.sub is not None:
            self.sub.push(
                protected,
                cut=cut,
                rate=opened.rate,
                colour=opened.colour,
                model_id=self._model_id,
                strength=self._strength,
            )
        opened.num_units += 1
        self._meter.count("key_frames", int(cut))

    def finish(self, trailing: Sequence[SealedPacket] = ()) -> None:
        """Sign and publish the open segment, and that nothing follows it.

        Raises:
            MediaError: the source ended with packets but without a single picture.
        """
        if self.sub is not None:
            self.sub.close()
        opened = self._opened
        if opened is None:
            if trailing:
                message = f"source {self._source_name}: ended without a picture"
                raise MediaError(message)
            return
        rest = opened.layer.rest(tuple(trailing))
        self._meter.count("sealed_bytes", rest.num_bytes)
        opened.lagging += rest.lagging
        opened.units += opened.encoder.flush()
        self._catch_up(opened, closing=True)
        self._send(opened.sealer.finish(rest.packets, ends_stream=True))
        opened.encoder.close()

    def _catch_up(self, opened: _Opened, *, closing: bool = False) -> None:
        """Seal the pictures whose units and originals have come; with ``closing`` all.

        Raises:
            MediaError: an encoder closed a segment and left out pictures.
        """
        while opened.waiting and opened.units and (opened.lagging or not opened.layer.lags):
            own = (opened.lagging.popleft(),) if opened.layer.lags else ()
            self._seal(opened, opened.units.popleft(), opened.waiting.popleft(), own)
        if closing and opened.waiting:
            message = (
                f"{len(opened.waiting)} pictures of a segment were not coded: "
                f"{len(opened.units)} protected and {len(opened.lagging)} sealed are left"
            )
            raise MediaError(message)

    def _seal(
        self, opened: _Opened, unit: AccessUnit, picture: _Picture, own: tuple[SealedPacket, ...]
    ) -> None:
        with self._meter.timed("seal"):
            units = opened.sealer.push(
                unit, (*picture.packets, *own), starts_segment=picture.starts, late_packets=picture.late
            )
        self._send(units)

    def _send(self, units: Sequence[SealedUnit]) -> None:
        with self._meter.timed("send"):
            for unit in units:
                self._meter.published(unit.unit.num_bytes)
                self._meter.count("segments", int(unit.is_last))
                self._broadcast.publish(unit)

    def _begin(self, opened: _Opened) -> None:
        params = replace(opened.sealer.params, streams=opened.layer.streams, regions=opened.layer.regions)
        if opened.sealer.params != params:
            opened.sealer.params = params
        if opened.hider is not None:
            opened.hider.begin(opened.sealer.next_keys())
        if self._epochs is not None:
            self.epoch = self._epochs.current().epoch_id.hex()[:8]

    def _open(self, captured: Captured, protected: ProtectedFrame, rate: Fraction) -> _Opened:
        mode = choose_mode(self._options.sealed, captured, self._source_name)
        rate = min(rate, _MAX_RATE) if rate > 0 else Fraction(25)
        layer = self._layer(mode, captured, rate)
        colour = _colour(captured)
        model = choose_pixels(self._options.pixels, self._epochs, live=self._live)
        encoder = ProtectedEncoder(
            protected.width,
            protected.height,
            rate=rate,
            crf=self._options.crf,
            max_bitrate_bps=self._options.max_bitrate_bps,
            preset=self._options.preset,
            threads=self._options.threads,
            colour=colour,
            # What is hidden in a picture needs its own bits; the first of a segment names the keys.
            lookahead=0 if self._live or model is not None else FILE_LOOKAHEAD,
            adaptive=model is not None,  # it hides where the picture is flat
        )
        params = SealerParams(
            protected.width,
            protected.height,
            _MICROSECONDS,
            self._model_id,
            self._strength,
            mode,
            layer.streams,
            layer.regions,
            None if model is None else PixelsRecord(model.setting, model.model_id),
        )
        cap = self._options.unit_cap_bytes
        if cap is None:
            in_file = not self._live and mode is SealedMode.FFV1
            cap = FILE_UNIT_CAP_BYTES if in_file else LIVE_UNIT_CAP_BYTES
        sealer = SegmentSealer(self._camera_key, self._epochs, params, unit_cap_bytes=cap)
        logger.info(
            "source %s: %dx%d, sealed as %s",
            self._source_name,
            protected.width,
            protected.height,
            mode.name.lower(),
        )
        hider = None if model is None else PixelHider(model)
        size = protected.width, protected.height
        return _Opened(mode, layer, encoder, sealer, *size, rate, colour, hider)

    def _layer(self, mode: SealedMode, captured: Captured, rate: Fraction) -> SealedLayer:
        if mode is SealedMode.NONE:
            return NoLayer()
        if mode is SealedMode.COPY:
            return CopiedLayer(captured)
        preset = self._options.sealed_preset
        if preset is None and self._live and mode is SealedMode.H264:
            preset = LIVE_H264_PRESET
        split = self._options.sealed_regions
        return CodedLayer(
            mode,
            captured,
            rate=rate,
            crf=self._options.sealed_crf,
            preset=preset,
            threads=self._options.threads,
            split=split,
            lags=not self._live and mode is SealedMode.AV1 and split is None,
        )


@dataclass(slots=True)
class _Opened:
    """Everything that needed the first picture."""

    mode: SealedMode
    layer: SealedLayer
    encoder: ProtectedEncoder
    sealer: SegmentSealer
    width: int
    height: int
    rate: Fraction
    colour: ColourTags
    hider: PixelHider | None = None
    num_units: int = 0
    segment_bytes: int = 0
    # Pictures wait for their units and, where the sealed layer lags, for their originals: as many as the
    # encoders hold.
    waiting: deque[_Picture] = field(default_factory=deque)
    units: deque[AccessUnit] = field(default_factory=deque)
    lagging: deque[SealedPacket] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class _Picture:
    """What is sealed with a protected picture; ``late`` is for the segment before."""

    starts: bool
    late: tuple[SealedPacket, ...]
    packets: tuple[SealedPacket, ...]


def choose_pixels(wanted: str | None, epochs: EpochRing | None, *, live: bool) -> PixelModel | None:
    """The networks of the pixel path, if any.

    Raises:
        UsageError: a setting without recipients, or an unknown one.
    """
    setting = pixels_setting(wanted, has_recipients=epochs is not None, live=live)
    if setting == "off":
        return None
    if epochs is None:
        raise UsageError(f"pixels {setting}: needs recipients")
    return load_pixel_model(setting)


def pixels_setting(wanted: str | None, *, has_recipients: bool, live: bool) -> str:
    """``off``, ``low`` or ``high``: what is wanted, or what is usual.

    Unless told otherwise ``low`` for files and none for live cameras: at 720p hiding takes about as much
    of the processor as protecting does. None where nobody could read it.
    """
    if wanted is None:
        return "off" if live or not has_recipients else "low"
    return wanted


def _colour(captured: Captured) -> ColourTags:
    """Tags of the protected layer: the source's, else what players assume for its size."""
    picture = captured.picture
    usual = _HD_TAG if picture.height >= _HD_LINES else _SD_TAG
    if picture.format.is_rgb:
        return ColourTags(usual, usual, usual)
    primaries, transfer, matrix = (
        int(value) if int(value) not in (0, _UNSPECIFIED) else usual
        for value in (picture.color_primaries, picture.color_trc, picture.colorspace)
    )
    return ColourTags(primaries, transfer, matrix)
