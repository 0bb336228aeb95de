"""Turns protected access units and the original's packets into signed, sealed segments."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from base.errors import UsageError
from codec.access_unit import AccessUnit
from codec.digests import parameter_digest
from codec.limits import DEFAULT_LIMITS, LIVE_UNIT_CAP_BYTES, Limits
from codec.nal import NalType, nal_type
from codec.packets import SealedPacket, SealedStream
from codec.pixels_record import PixelsRecord
from codec.records import ID_BYTES, MODEL_ID_BYTES, ZERO_DIGEST, SealedMode, SegmentHeader
from codec.regions import RegionGrid
from codec.segment_writer import SegmentWriter
from keys import CameraKey, Epoch, EpochRing, SegmentKeys

_LOG = logging.getLogger(__name__)
_NO_EPOCH = bytes(ID_BYTES)


@dataclass(frozen=True, slots=True)
class SealerParams:
    """What a segment's header and STREAM records say about the video.

    Attributes:
        width: of the protected picture in pixels, as height.
        model_id: first 8 bytes of the protector's SHA-256.
        streams: of the original, as the packets pushed refer to them.
        regions: how the original is split; then each tile is a stream that names its region
            (`codec.stream_info.region_extensions`).
        pixels: how the original is hidden in the pictures pushed; they are hidden under `next_keys`.
    """

    width: int
    height: int
    time_base: Fraction
    model_id: bytes
    strength: int
    sealed_mode: SealedMode
    streams: tuple[SealedStream, ...] = ()
    regions: RegionGrid | None = None
    pixels: PixelsRecord | None = None

    def __post_init__(self) -> None:
        if len(self.model_id) != MODEL_ID_BYTES:
            message = f"model id: expected {MODEL_ID_BYTES} bytes, got {len(self.model_id)}"
            raise UsageError(message)


@dataclass(frozen=True, slots=True)
class SealedUnit:
    """An access unit that is ready to publish."""

    unit: AccessUnit
    starts_segment: bool
    segment_index: int
    is_last: bool


@dataclass(slots=True)
class SealerStats:
    """Counters since the start."""

    segments: int = 0
    units: int = 0
    units_over_cap: int = 0
    sealed_bytes: int = 0
    largest_unit_bytes: int = 0
    largest_backlog_bytes: int = 0


class SegmentSealer:
    """Signs and seals the segments of one stream; give it access units in coding order.

    It holds back exactly one access unit, so that it always knows which one is its segment's
    last. Sealed bytes that do not fit under ``unit_cap_bytes`` wait for the segment's next
    units; what is left goes into the last one whatever its size, and is counted. Not safe
    for two threads.
    """

    def __init__(
        self,
        camera_key: CameraKey,
        epochs: EpochRing | None,
        params: SealerParams,
        *,
        unit_cap_bytes: int = LIVE_UNIT_CAP_BYTES,
        limits: Limits = DEFAULT_LIMITS,
        stream_id: bytes | None = None,
    ) -> None:
        """Start a stream.

        Args:
            camera_key: signs.
            epochs: asked once per segment for the current epoch; None with ``SealedMode.NONE`` only.
            params: see there.
            unit_cap_bytes: largest access unit, SEI included, that sealed bytes may make.
            limits: what readers accept.
            stream_id: 16 bytes, for reproducible tests; fresh random ones otherwise. Using one
                twice under one epoch key would repeat nonces.
        """
        if epochs is None and params.sealed_mode is not SealedMode.NONE:
            message = f"sealed mode {params.sealed_mode.name}: needs recipients"
            raise UsageError(message)
        self.stream_id = secrets.token_bytes(ID_BYTES) if stream_id is None else stream_id
        self.stats = SealerStats()
        self._camera_key = camera_key
        self._epochs = epochs
        self._params = params
        self._cap_bytes = unit_cap_bytes
        self._limits = limits
        self._next_index = 0
        self._next_epoch: Epoch | None = None
        self._is_over = False
        self._previous_digest = ZERO_DIGEST
        self._segment: SegmentWriter | None = None

    @property
    def params(self) -> SealerParams:
        """What the next segment's header will say."""
        return self._params

    @params.setter
    def params(self, params: SealerParams) -> None:
        """Takes effect when the next segment starts."""
        if self._epochs is None and params.sealed_mode is not SealedMode.NONE:
            message = f"sealed mode {params.sealed_mode.name}: needs recipients"
            raise UsageError(message)
        self._params = params

    def push(
        self,
        unit: AccessUnit,
        packets: Sequence[SealedPacket] = (),
        *,
        starts_segment: bool,
        late_packets: Sequence[SealedPacket] = (),
    ) -> list[SealedUnit]:
        """Take the next picture and the original's packets that came with it.

        Args:
            unit: has a picture; with SPS and PPS where it starts a segment. ``pts_us`` is its capture time.
            packets: sealed into the segment of ``unit``.
            starts_segment: close the open segment; ``unit`` has to be a key frame.
            late_packets: with ``starts_segment``: packets that still belong to the segment before,
                such as audio and pictures that a source delivered before its new key frame.

        Returns:
            The unit held back so far, if any.

        Raises:
            UsageError: no segment is open, the unit cannot start one, or the stream was ended.
            LimitExceeded: more than readers accept; the segment cannot be continued.
        """
        if self._is_over:
            message = "access unit: the stream was ended, make another sealer"
            raise UsageError(message)
        done: list[SealedUnit] = []
        if starts_segment:
            self._check_start(unit)
            done = self.finish(late_packets)
            self._segment = self._start(unit)
        elif late_packets:
            message = "late packets: only where a segment starts"
            raise UsageError(message)
        segment = self._segment
        if segment is None:
            message = "access unit: no segment is open, push with starts_segment=True first"
            raise UsageError(message)
        segment.add(packets)
        held, segment.held = segment.held, unit
        if held is not None:
            done.append(self._publish(segment, held, is_last=False))
        return done

    def finish(self, packets: Sequence[SealedPacket] = (), *, ends_stream: bool = False) -> list[SealedUnit]:
        """Close the open segment with the original's last packets. ``push`` may start another one later.

        Args:
            packets: of the original.
            ends_stream: sign that nothing follows; then ``push`` is refused.

        Raises:
            LimitExceeded: the segment's last unit would be larger than readers accept.
        """
        self._is_over |= ends_stream
        segment, self._segment = self._segment, None
        if segment is None or segment.held is None:
            if packets:
                _LOG.warning("%d sealed packets came outside of any segment and are dropped", len(packets))
            return []
        segment.add(packets)
        done = self._publish(segment, segment.held, is_last=True, ends_stream=ends_stream)
        self._previous_digest = segment.signature_digest
        self.stats.segments += 1
        return [done]

    def next_keys(self) -> SegmentKeys:
        """Return the keys of the segment that the next push with ``starts_segment`` begins.

        The picture that begins it can be hidden under them before it is coded. Fixes the segment's epoch.

        Raises:
            UsageError: there are no epoch keys.
        """
        self._next_epoch = epoch = self._current_epoch()
        if epoch is None:
            raise UsageError("pixel path: needs recipients")
        return epoch.key.segment(self._camera_key.camera_id, self.stream_id, epoch.epoch_id, self._next_index)

    def _current_epoch(self) -> Epoch | None:
        return self._epochs.current() if self._epochs is not None else None

    def _check_start(self, unit: AccessUnit) -> None:
        types = {nal_type(nal) for nal in unit.nals}
        if not unit.is_keyframe or not {NalType.SPS, NalType.PPS} <= types:
            message = "access unit: a segment starts with an IDR picture that brings its SPS and PPS"
            raise UsageError(message)

    def _start(self, unit: AccessUnit) -> SegmentWriter:
        epoch, self._next_epoch = self._next_epoch or self._current_epoch(), None
        header = SegmentHeader(
            camera_id=self._camera_key.camera_id,
            stream_id=self.stream_id,
            epoch_id=epoch.epoch_id if epoch else _NO_EPOCH,
            segment_index=self._next_index,
            start_us=unit.pts_us,
            previous_digest=self._previous_digest,
            width=self._params.width,
            height=self._params.height,
            time_base=self._params.time_base,
            parameter_digest=parameter_digest(unit.parameter_sets()),
            model_id=self._params.model_id,
            strength=self._params.strength,
            sealed_mode=self._params.sealed_mode,
            starts_with_key=False,
            stanzas=epoch.stanzas if epoch else (),
            extensions=tuple(
                each.record() for each in (self._params.pixels, self._params.regions) if each is not None
            ),
        )
        self._next_index += 1
        return SegmentWriter(header, epoch, self._camera_key, self._params.streams, self._limits)

    def _publish(
        self, segment: SegmentWriter, unit: AccessUnit, *, is_last: bool, ends_stream: bool = False
    ) -> SealedUnit:
        starts = segment.num_units == 0
        waiting = segment.lanes.num_waiting_bytes
        sealed = segment.seal(unit, self._cap_bytes, is_last=is_last, ends_stream=ends_stream)
        stats = self.stats
        stats.units += 1
        still_waiting = segment.lanes.num_waiting_bytes
        stats.sealed_bytes += waiting - still_waiting
        stats.largest_unit_bytes = max(stats.largest_unit_bytes, sealed.num_bytes)
        stats.largest_backlog_bytes = max(stats.largest_backlog_bytes, still_waiting)
        if sealed.num_bytes > self._cap_bytes:
            stats.units_over_cap += 1
            _LOG.info(
                "segment %d: access unit of %d bytes is above the cap of %d",
                segment.header.segment_index,
                sealed.num_bytes,
                self._cap_bytes,
            )
        return SealedUnit(sealed, starts, segment.header.segment_index, is_last)
