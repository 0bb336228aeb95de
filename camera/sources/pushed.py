"""Pictures that somebody pushes to us as coded H.264, over WHIP: the source does not connect, it waits.

Units are sealed as they came (copy), decoded here, and wait in a bounded queue in between; when decoding
falls behind, the queue is emptied up to the next key frame, which starts a new segment. Without a publisher
the source waits for the next one for ever; another publisher's first picture begins a new pass of the clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import av

from analytics.encoded_unit import EncodedUnit, UnitQueue
from base.errors import FormatError
from camera.sources.captured import Captured, Source
from camera.sources.convert import clear_frame
from camera.sources.ledger import PacketLedger
from camera.sources.timeline import Timeline
from codec.access_unit import AccessUnit
from codec.nal import join_annexb
from codec.packets import SealedPacket, SealedStream, StreamKind

if TYPE_CHECKING:
    from av.stream import Stream

logger = logging.getLogger(__name__)

MAX_UNITS = 128
MAX_BYTES = 16 * 1024 * 1024
SILENCE_S = 5.0  # after that the source counts as lost
_MICROSECOND = Fraction(1, 1_000_000)
_POLL_S = 0.5


class PushedSource(Source):
    """Takes units from any thread, gives pictures to the pipeline's."""

    def __init__(self, name: str = "whip:") -> None:
        super().__init__(name, drops=True)
        self._changed = threading.Condition()
        self._queue = UnitQueue(MAX_UNITS, MAX_BYTES)
        self._new_publisher = False
        self._ask_for_key: Callable[[], None] | None = None
        self._ledger = PacketLedger()
        self._timeline = Timeline()
        self._streams: tuple[SealedStream, ...] = ()
        self._num_publishers = 0

    def begin(self, ask_for_key: Callable[[], None]) -> None:
        """A publisher's session begins; what waits of another's is dropped.

        Args:
            ask_for_key: makes it send a key frame; for any thread.
        """
        with self._changed:
            self._queue.drop()
            self._new_publisher = True
            self._num_publishers += 1
            self._ask_for_key = ask_for_key
            if self._num_publishers > 1:
                self._reconnects += 1

    def end(self, reason: str) -> None:
        """The publisher's session has ended."""
        with self._changed:
            self._ask_for_key = None
            self._state, self._last_error = "reconnecting", reason

    def put(self, data: bytes, time_us: int) -> None:
        """Queue a unit: Annex-B, with its time on the publisher's clock. Never waits."""
        with self._changed:
            if self._queue.put(data, time_us) and self._ask_for_key is not None:
                self._ask_for_key()
            self._changed.notify()

    def close(self) -> None:
        """End the iteration at once."""
        super().close()
        with self._changed:
            self._changed.notify()

    def sealed_streams(self) -> tuple[SealedStream, ...]:
        """The publisher's video."""
        return self._streams

    def trailing_packets(self) -> tuple[SealedPacket, ...]:
        """Packets that no picture took."""
        return self._ledger.rest()

    def __iter__(self) -> Iterator[Captured]:
        decoder = _new_decoder()
        last_s = time.monotonic()
        while not self.is_closing():
            taken = self._next()
            if taken is None:
                if self._state == "running" and time.monotonic() - last_s > SILENCE_S:
                    self._state = "reconnecting"
                continue
            unit, is_new = taken
            last_s = time.monotonic()
            if is_new:
                decoder = _new_decoder()
                self._timeline.begin_pass(now_unix_us=_now_us())
            if is_new or unit.discontinuity:
                self._ledger.mark_discontinuity()
            yield from self._read(unit, decoder)
        self._state = "ended"

    def _next(self) -> tuple[EncodedUnit, bool] | None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._queue) or self.is_closing(), _POLL_S)
            unit = self._queue.pop()
            if unit is None:
                return None
            is_new, self._new_publisher = self._new_publisher, False
            return unit, is_new

    def _read(self, unit: EncodedUnit, decoder: av.VideoCodecContext) -> Iterator[Captured]:
        pts, dts = self._timeline.shift(0, unit.pts_us, unit.pts_us, None, _MICROSECOND)
        packet: av.Packet[Stream] = av.Packet(unit.data)
        packet.pts, packet.dts, packet.time_base = pts, dts, _MICROSECOND
        try:
            pictures = decoder.decode(packet)
        except av.FFmpegError:
            pictures = []
            if self._ask_for_key is not None:
                self._ask_for_key()
        if unit.is_keyframe:
            self._describe(unit, pictures[0] if pictures else None)
        if not self._streams:
            return  # nothing that a recording could begin with
        self._ledger.add(
            SealedPacket(0, unit.is_keyframe, pts, dts, None, unit.data),
            key_pts=pts,
            is_video_key=unit.is_keyframe,
        )
        for picture in pictures:
            yield self._capture(picture)

    def _describe(self, unit: EncodedUnit, picture: av.VideoFrame | None) -> None:
        """Note what a decoder needs; another description than before starts a segment."""
        if picture is None:
            return
        try:
            sets = AccessUnit.from_annexb(unit.data, 0).parameter_sets()
        except FormatError:
            return
        streams = (
            SealedStream(
                index=0,
                kind=StreamKind.VIDEO,
                codec="h264",
                time_base=_MICROSECOND,
                width=picture.width,
                height=picture.height,
                pixel_format=picture.format.name,
                extradata=join_annexb(sets),
            ),
        )
        if not self._streams:
            self._ledger.begin(streams)
        elif streams != self._streams:
            self._ledger.mark_discontinuity(streams)
        self._streams = streams

    def _capture(self, picture: av.VideoFrame) -> Captured:
        shown_us = picture.pts or 0
        if not self._timeline.pinned:
            self._timeline.start_at(shown_us, _now_us())
        time_us = self._timeline.time_us(shown_us)
        self._state = "running"
        taken = self._ledger.take(picture.pts, picture_is_key=bool(picture.key_frame))
        return Captured(
            picture,
            clear_frame(picture, time_us),
            taken.packets,
            taken.boundary,
            taken.source_key,
            taken.discontinuity,
            taken.streams,
            0,
            time_us,
            self._timeline.source_us(time_us),
        )


def _new_decoder() -> av.VideoCodecContext:
    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_count = 1  # frame threads would delay every picture
    return decoder


def _now_us() -> int:
    return time.time_ns() // 1000
