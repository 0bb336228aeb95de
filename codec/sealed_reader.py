"""The sealed byte streams of one segment: its chunks decrypted, joined, and read record by record.

Damage costs what it hit and no more: every chunk that authenticates is used, reading resumes at
the next record after a hole, and what was lost comes back as a list of problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from base.errors import AuthenticationFailed, FormatError, LimitExceeded, Malformed
from codec.chunks import (
    NO_RECORD_START,
    RECORD_START_BYTES,
    SealedChunk,
    each_sealed_body,
    split_chunk_number,
)
from codec.digests import chunk_aad, header_digest, unit_digest
from codec.limits import Limits
from codec.packets import RecordKind, SealedPacket, SealedStream
from codec.reader import TLV_HEAD, Reader, refuse_critical
from codec.records import SegmentHeader
from codec.segments import SegmentView
from keys.schedule import SealedCipher, chunk_nonce


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
class Run:
    """Plaintext of consecutive chunks, from its first record on."""

    first_chunk: int
    data: bytes


class PartChunks:
    """The opened chunks of one part, joined where they are consecutive."""

    def __init__(self, cipher: SealedCipher, limits: Limits, problems: list[Problem]) -> None:
        self.cipher = cipher
        self.problems = problems
        self._limits = limits
        self._plain: dict[int, bytes] = {}
        self._num_bytes = 0

    def has(self, index: int) -> bool:
        """Whether the chunk was opened before."""
        return index in self._plain

    def add(self, index: int, plain: bytes, where: str) -> None:
        """Take an opened chunk; one that exceeds the limit is left out and noted."""
        self._num_bytes += len(plain)
        if self._num_bytes > self._limits.max_segment_bytes:
            self.problems.append(Problem(Loss.CHUNK_REFUSED, f"{where}: segment above its limit"))
            return
        self._plain[index] = plain

    def runs(self) -> Iterator[Run]:
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
            yield Run(first, _from_first_record(parts))
        if not expected:
            self.problems.append(Problem(Loss.STRIPPED, "no chunk of the segment opens"))

    def _note_missing(self, start: int, stop: int) -> None:
        names = f"chunk {start}" if stop == start + 1 else f"chunks {start} to {stop - 1}"
        self.problems.append(Problem(Loss.CHUNK_MISSING, names))


class SegmentChunks:
    """Decrypts the chunks of one segment, part by part.

    Attributes:
        parts: those that there is a cipher for.
        problems: of part 0, and with chunks that belong to none of them for sure.
    """

    def __init__(
        self, ciphers: Mapping[int, SealedCipher], header: SegmentHeader, header_body: bytes, limits: Limits
    ) -> None:
        self.problems: list[Problem] = []
        self.parts = {
            part: PartChunks(cipher, limits, [] if part else self.problems)
            for part, cipher in ciphers.items()
        }
        grid = header.regions
        self._num_parts = 1 + grid.num_regions if grid else None  # None: chunks count without parts
        self._header = header
        self._header_digest = header_digest(header_body)
        self._limits = limits

    def open_all(self, view: SegmentView) -> None:
        """Decrypt every chunk that there is a key for."""
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
        problems = self.problems
        try:
            chunk = SealedChunk.parse(body)
            part_number, index = self._place(chunk)
            part = self.parts.get(part_number)
            if part is None or part.has(index):
                return
            problems = part.problems
            aad = chunk_aad(
                self._header_digest,
                self._header.camera_id,
                chunk.segment_index,
                chunk.chunk_index,
                picture,
            )
            plain = part.cipher.open(chunk_nonce(chunk.chunk_index), chunk.ciphertext, aad)
        except (FormatError, AuthenticationFailed) as error:
            problems.append(Problem(Loss.CHUNK_REFUSED, f"{where}: {error}"))
            return
        part.add(index, plain, where)

    def _place(self, chunk: SealedChunk) -> tuple[int, int]:
        """Part and index within it.

        Raises:
            Malformed: there is no such part.
        """
        if self._num_parts is None:
            return 0, chunk.chunk_index
        part, index = split_chunk_number(chunk.chunk_index)
        if part >= self._num_parts:
            message = f"sealed chunk of region {part - 1}, the segment has {self._num_parts - 1}"
            raise Malformed(message)
        return part, index


def _from_first_record(parts: list[bytes]) -> bytes:
    """Join chunks, less the rest of a record whose beginning is not among them."""
    for number, part in enumerate(parts):
        start = int.from_bytes(part[:RECORD_START_BYTES], "big")
        if start != NO_RECORD_START:
            rest = (later[RECORD_START_BYTES:] for later in parts[number + 1 :])
            return b"".join((part[RECORD_START_BYTES + start :], *rest))
    return b""


class PartContent:
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

    def read(self, run: Run) -> None:
        """Take the records of the next run."""
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
        """Hold what came against the number of records that END announced."""
        if self._num_announced is None:
            self.problems.append(Problem(Loss.END_MISSING, f"after {self._num_records} records"))
        elif self._num_announced != self._num_records:
            detail = f"{self._num_announced - self._num_records} of {self._num_announced}"
            self.problems.append(Problem(Loss.RECORDS_MISSING, detail))

    def _records(self, run: Run) -> Iterator[tuple[int, bytes]]:
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
