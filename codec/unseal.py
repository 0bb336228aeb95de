"""Opens sealed segments: from the access units and a key back to the original's packets.

Damage costs what it hit and no more: every chunk that authenticates is used, reading resumes at
the next record after a hole, and what was lost comes back as a list of problems. That a segment
opens says nothing about who made it; `codec.verify` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from base.errors import AuthenticationFailed, FormatError, LimitExceeded
from codec.chunks import NO_RECORD_START, RECORD_START_BYTES, SealedChunk, each_sealed_body
from codec.digests import chunk_aad, header_digest, unit_digest
from codec.limits import DEFAULT_LIMITS, Limits
from codec.packets import RecordKind, SealedPacket, SealedStream
from codec.reader import TLV_HEAD, Reader, refuse_critical
from codec.records import SealedMode, SegmentHeader
from codec.segments import SegmentView, read_segments
from keys import EpochKey, Identity, SegmentKeys, unwrap_epoch_key
from keys.schedule import SealedCipher, chunk_nonce

__all__ = ["Loss", "OpenedSegment", "Problem", "open_segment", "read_segments", "unwrap_segment_epoch"]


class Loss(Enum):
    """What kept a part of a segment from being opened."""

    HEADER_MISSING = "header missing"
    HEADER_DAMAGED = "header damaged"
    NOT_SEALED = "no sealed layer"
    STRIPPED = "sealed layer gone"
    CHUNK_MISSING = "chunk missing"
    CHUNK_REFUSED = "chunk does not authenticate"
    RECORD_DAMAGED = "record damaged"
    END_MISSING = "end missing"
    RECORDS_MISSING = "records missing"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that was lost, for reports."""

    loss: Loss
    detail: str

    def __str__(self) -> str:
        return f"{self.loss.value}: {self.detail}"


@dataclass(frozen=True, slots=True)
class OpenedSegment:
    """What came out of one segment.

    Attributes:
        header: None if it is missing or damaged; then nothing was opened.
        streams: empty if the chunk that holds them is lost.
        packets: of all streams, in the order sealed.
        num_intact_packets: how many of them precede the first hole.
        problems: empty if and only if the segment is complete.
    """

    header: SegmentHeader | None
    streams: tuple[SealedStream, ...] = ()
    packets: tuple[SealedPacket, ...] = field(default=(), repr=False)
    num_intact_packets: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every packet that the camera sealed is here."""
        return not self.problems


def unwrap_segment_epoch(header: SegmentHeader, identities: Iterable[Identity]) -> EpochKey:
    """The epoch key of a segment. Keep it by ``header.epoch_id``: unwrapping costs more than opening.

    Raises:
        NoMatchingIdentity: none of the identities is among the recipients.
        AuthenticationFailed: the wrapped key was changed.
    """
    return unwrap_epoch_key(header.stanzas, identities, header.camera_id, header.epoch_id)


def open_segment(
    view: SegmentView,
    key: EpochKey | SegmentKeys | Sequence[Identity],
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> OpenedSegment:
    """Decrypt and parse the sealed layer of one segment.

    Args:
        view: from `read_segments`.
        key: the epoch's key, the segment's keys, or identities among which is a recipient.
        limits: what to accept.

    Raises:
        NoMatchingIdentity: none of the identities is among the recipients.
        AuthenticationFailed: the wrapped epoch key was changed.
    """
    try:
        header = view.header(limits)
    except FormatError as error:
        return OpenedSegment(None, problems=(Problem(Loss.HEADER_DAMAGED, str(error)),))
    body = view.header_body
    if header is None or body is None:
        return OpenedSegment(None, problems=(Problem(Loss.HEADER_MISSING, "the key frame's unit is lost"),))
    if header.sealed_mode is SealedMode.NONE:
        return OpenedSegment(header, problems=(Problem(Loss.NOT_SEALED, "made with sealed mode NONE"),))
    chunks = _Chunks(_segment_cipher(header, key), header, body, limits)
    chunks.open_all(view)
    content = _Content(limits, chunks.problems)
    for run in chunks.runs():
        content.read(run)
    content.close()
    return OpenedSegment(
        header, tuple(content.streams), tuple(content.packets), content.num_intact, tuple(content.problems)
    )


def _segment_cipher(header: SegmentHeader, key: EpochKey | SegmentKeys | Sequence[Identity]) -> SealedCipher:
    if isinstance(key, SegmentKeys):
        return key.sealed_cipher()
    epoch_key = key if isinstance(key, EpochKey) else unwrap_segment_epoch(header, key)
    return epoch_key.segment(
        header.camera_id, header.stream_id, header.epoch_id, header.segment_index
    ).sealed_cipher()


@dataclass(frozen=True, slots=True)
class _Run:
    """Plaintext of consecutive chunks, from its first record on."""

    first_chunk: int
    data: bytes


class _Chunks:
    """Decrypts the chunks of one segment and joins those that are consecutive."""

    def __init__(
        self, cipher: SealedCipher, header: SegmentHeader, header_body: bytes, limits: Limits
    ) -> None:
        self.problems: list[Problem] = []
        self._cipher = cipher
        self._header = header
        self._header_digest = header_digest(header_body)
        self._limits = limits
        self._plain: dict[int, bytes] = {}
        self._num_bytes = 0

    def open_all(self, view: SegmentView) -> None:
        for frame, viewed in view.own_units():
            where = f"frame {frame.frame_index}"
            bodies = tuple(each_sealed_body(viewed.unit, self._limits))
            picture = unit_digest(bytes(frame), viewed.unit) if bodies else b""
            for body in bodies:
                if isinstance(body, FormatError):
                    self.problems.append(Problem(Loss.CHUNK_REFUSED, f"{where}: {body}"))
                else:
                    self._open(body, picture, where)

    def _open(self, body: bytes, picture: bytes, where: str) -> None:
        try:
            chunk = SealedChunk.parse(body)
            if chunk.chunk_index in self._plain:
                return
            aad = chunk_aad(
                self._header_digest,
                self._header.camera_id,
                chunk.segment_index,
                chunk.chunk_index,
                picture,
            )
            plain = self._cipher.open(chunk_nonce(chunk.chunk_index), chunk.ciphertext, aad)
        except (FormatError, AuthenticationFailed) as error:
            self.problems.append(Problem(Loss.CHUNK_REFUSED, f"{where}: {error}"))
            return
        self._num_bytes += len(plain)
        if self._num_bytes > self._limits.max_segment_bytes:
            self.problems.append(Problem(Loss.CHUNK_REFUSED, f"{where}: segment above its limit"))
            return
        self._plain[chunk.chunk_index] = plain

    def runs(self) -> Iterator[_Run]:
        """Runs of consecutive chunks, each starting at a record; chunks are freed as they are joined."""
        indices = sorted(self._plain)
        expected = 0
        while indices:
            first = last = indices[0]
            if first != expected:
                self._note_missing(expected, first)
            while last + 1 in self._plain:
                last += 1
            parts = [self._plain.pop(index) for index in range(first, last + 1)]
            indices = indices[last - first + 1 :]
            expected = last + 1
            yield _Run(first, _from_first_record(parts))
        if not expected:
            self.problems.append(Problem(Loss.STRIPPED, "no chunk of the segment opens"))

    def _note_missing(self, start: int, stop: int) -> None:
        names = f"chunk {start}" if stop == start + 1 else f"chunks {start} to {stop - 1}"
        self.problems.append(Problem(Loss.CHUNK_MISSING, names))


def _from_first_record(parts: list[bytes]) -> bytes:
    """Join chunks, less the rest of a record whose beginning is not among them."""
    for number, part in enumerate(parts):
        start = int.from_bytes(part[:RECORD_START_BYTES], "big")
        if start != NO_RECORD_START:
            rest = (later[RECORD_START_BYTES:] for later in parts[number + 1 :])
            return b"".join((part[RECORD_START_BYTES + start :], *rest))
    return b""


class _Content:
    """Reads the records of the sealed byte stream."""

    def __init__(self, limits: Limits, problems: list[Problem]) -> None:
        self.streams: list[SealedStream] = []
        self.packets: list[SealedPacket] = []
        self.problems = problems
        self.num_intact = 0
        self._limits = limits
        self._num_records = 0
        self._num_announced: int | None = None
        self._is_intact = True

    def read(self, run: _Run) -> None:
        self._is_intact &= run.first_chunk == 0
        try:
            for kind, body in self._records(run):
                self._take(kind, body)
        except FormatError as error:
            self.problems.append(Problem(Loss.RECORD_DAMAGED, str(error)))
        if self._is_intact:
            self.num_intact = len(self.packets)
        self._is_intact = False

    def close(self) -> None:
        if self._num_announced is None:
            self.problems.append(Problem(Loss.END_MISSING, f"after {self._num_records} records"))
        elif self._num_announced != self._num_records:
            detail = f"{self._num_announced - self._num_records} of {self._num_announced}"
            self.problems.append(Problem(Loss.RECORDS_MISSING, detail))

    def _records(self, run: _Run) -> Iterator[tuple[int, bytes]]:
        reader = Reader(run.data, "sealed stream")
        while reader.remaining >= TLV_HEAD.size and self._num_announced is None:
            kind = reader.unsigned(1, "record type")
            size = reader.unsigned(4, "record length", self._limits.max_packet_bytes)
            if size > reader.remaining:
                return  # cut by a hole; the count in END, or its absence, reports it
            if self._num_records >= self._limits.max_records_per_segment:
                message = f"sealed stream: more than {self._limits.max_records_per_segment} records"
                raise LimitExceeded(message)
            yield kind, reader.take(size, "record")
        if self._num_announced is not None:
            reader.end()

    def _take(self, kind: int, body: bytes) -> None:
        if kind == RecordKind.END:
            reader = Reader(body, "END record")
            self._num_announced = reader.unsigned(4, "number of records")
            reader.end()
            return
        self._num_records += 1
        if kind == RecordKind.STREAM:
            self._add_stream(SealedStream.parse(body, self._limits))
        elif kind == RecordKind.PACKET:
            self._add_packet(SealedPacket.parse(body))
        else:
            refuse_critical(kind, "sealed stream")

    def _add_stream(self, stream: SealedStream) -> None:
        known = {known.index for known in self.streams}
        if stream.index in known or len(known) >= self._limits.max_streams:
            detail = f"stream {stream.index}: repeated, or above {self._limits.max_streams} streams"
            self.problems.append(Problem(Loss.RECORD_DAMAGED, detail))
            return
        self.streams.append(stream)

    def _add_packet(self, packet: SealedPacket) -> None:
        # Without STREAM records, which are lost with chunk 0, the caller may still know the streams.
        if self.streams and all(packet.stream_index != stream.index for stream in self.streams):
            detail = f"packet of stream {packet.stream_index}, which the segment does not declare"
            self.problems.append(Problem(Loss.RECORD_DAMAGED, detail))
            return
        self.packets.append(packet)
