"""One segment in the making: where chunks, digests and the signature come together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from base.errors import LimitExceeded, UsageError
from codec.access_unit import AccessUnit
from codec.digests import chunk_digest, header_digest, unit_digest
from codec.lanes import Lanes
from codec.limits import Limits
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.records import (
    ZERO_DIGEST,
    FrameRecord,
    Meta,
    SealedMode,
    SegmentHeader,
    SignatureRecord,
    UnitDigests,
    end_message,
)
from codec.sei import SeiKind, pack_veilcam
from keys import CameraKey, Epoch, SegmentKeys


class SegmentWriter:
    """One segment while it is being written: its sealed parts and digests.

    Attributes:
        held: the access unit that waits for the next one.
        header: complete once the first unit is sealed.
        signature_digest: set once the last unit is sealed; the next segment's header repeats it.
    """

    def __init__(
        self,
        header: SegmentHeader,
        epoch: Epoch | None,
        camera_key: CameraKey,
        streams: Sequence[SealedStream],
        limits: Limits,
    ) -> None:
        self.header = header
        self.held: AccessUnit | None = None
        self.lanes = Lanes(header, _keys(header, epoch), streams, limits)
        self.signature_digest = ZERO_DIGEST
        self._camera_key = camera_key
        self._limits = limits
        self._video = {stream.index for stream in streams if stream.kind is StreamKind.VIDEO}
        self._first_video: SealedPacket | None = None
        self._header_digest = ZERO_DIGEST
        self._digests: list[UnitDigests] = []
        # Keep the backlog so small that the last unit, which takes all of it, stays readable.
        self._pressure_bytes = limits.max_unit_bytes // 4

    @property
    def num_units(self) -> int:
        """Access units sealed so far."""
        return len(self._digests)

    def add(self, packets: Sequence[SealedPacket]) -> None:
        """Queue packets of the original.

        Raises:
            UsageError: the segment has no sealed layer.
            LimitExceeded: larger than readers accept.
        """
        if not self.lanes:
            if packets:
                message = "sealed mode NONE: packets cannot be sealed"
                raise UsageError(message)
            return
        self.lanes.add(packets)
        if self._first_video is None:
            self._first_video = next((p for p in packets if p.stream_index in self._video), None)

    def seal(
        self, unit: AccessUnit, cap_bytes: int, *, is_last: bool, ends_stream: bool = False
    ) -> AccessUnit:
        """Splice META and, where there is something to seal and room for it, SEALED into the unit.

        Raises:
            LimitExceeded: the unit or the segment is larger than readers accept.
        """
        if self.num_units >= self._limits.max_frames_per_segment:
            message = f"segment: more than {self._limits.max_frames_per_segment} pictures"
            raise LimitExceeded(message)
        header_body = self._freeze_header() if not self._digests else None
        if is_last:
            self.lanes.end()
        frame = FrameRecord(
            self.header.stream_id, self.header.segment_index, self.num_units, unit.pts_us, num_chunks=1
        )
        free_bytes = cap_bytes - unit.num_bytes - _meta_bytes(frame, header_body)
        shares = tuple(self.lanes.shares(free_bytes, self.num_units, self._pressure_bytes, is_last=is_last))
        frame = replace(frame, num_chunks=len(shares))
        picture = unit_digest(bytes(frame), unit)
        chunks = [lane.seal(count, self.header, self._header_digest, picture) for lane, count in shares]
        self._digests.append(UnitDigests(picture, chunk_digest([bytes(chunk) for chunk in chunks])))
        signature = self._sign() if is_last else None
        meta = Meta(frame, header_body, signature, self._end_mark() if ends_stream else None)
        sei = [pack_veilcam(SeiKind.META, bytes(meta)), *(chunk.nal() for chunk in chunks)]
        return self._checked(unit.with_sei(sei))

    def _freeze_header(self) -> bytes:
        """The HEADER body; what it says about the sealed part is known now that a second picture came."""
        starts_with_key = self._first_video is not None and self._first_video.is_key
        self.header = replace(self.header, starts_with_key=starts_with_key)
        body = bytes(self.header)
        self._header_digest = header_digest(body)
        return body

    def _sign(self) -> bytes:
        unsigned = SignatureRecord(
            self.header.segment_index, self._header_digest, tuple(self._digests), signature=b""
        )
        record = replace(unsigned, signature=self._camera_key.sign(unsigned.message))
        self.signature_digest = record.digest
        return bytes(record)

    def _end_mark(self) -> bytes:
        header = self.header
        return self._camera_key.sign(
            end_message(header.stream_id, header.segment_index, self.signature_digest)
        )

    def _checked(self, unit: AccessUnit) -> AccessUnit:
        if unit.num_bytes > self._limits.max_unit_bytes:
            message = (
                f"segment {self.header.segment_index}: access unit of {unit.num_bytes} bytes,"
                f" readers accept {self._limits.max_unit_bytes}"
            )
            raise LimitExceeded(message)
        return unit


def _keys(header: SegmentHeader, epoch: Epoch | None) -> SegmentKeys | None:
    if epoch is None or header.sealed_mode is SealedMode.NONE:
        return None
    return epoch.key.segment(header.camera_id, header.stream_id, header.epoch_id, header.segment_index)


def _meta_bytes(frame: FrameRecord, header_body: bytes | None) -> int:
    """Bytes that the META message will take in the unit; another number of chunks needs at most one more."""
    return len(pack_veilcam(SeiKind.META, bytes(Meta(frame, header_body)))) + 4 + 1
