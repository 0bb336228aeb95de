"""SEALED message bodies: one AES-256-GCM chunk of the sealed byte stream (docs/format.md, section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from base.errors import FormatError, Malformed, Truncated, UsageError
from codec.access_unit import AccessUnit
from codec.limits import DEFAULT_LIMITS, Limits
from codec.reader import Reader
from codec.sei import SeiKind, pack_veilcam, read_veilcam, veilcam_kind

TAG_BYTES = 16
NO_RECORD_START = 2**32 - 1
CHUNK_HEAD_BYTES = 12
RECORD_START_BYTES = 4
PART_SHIFT = 24
MAX_CHUNKS_PER_PART = 2**PART_SHIFT
# NAL header, start code, payload type, UUID, version, kind, head, record start, tag, stop bit,
# and a reserve for the emulation prevention bytes of the head.
SEALED_OVERHEAD_BYTES = 5 + 1 + 18 + CHUNK_HEAD_BYTES + RECORD_START_BYTES + TAG_BYTES + 1 + 64


@dataclass(frozen=True, slots=True)
class SealedChunk:
    """segment index u64 | chunk index u32 | ciphertext and tag."""

    segment_index: int
    chunk_index: int
    ciphertext: bytes = field(repr=False)

    @classmethod
    def parse(cls, body: bytes) -> SealedChunk:
        """Read the body of a SEALED message.

        Raises:
            FormatError: it is too short for a chunk.
        """
        reader = Reader(body, "SEALED message")
        segment_index = reader.unsigned(8, "segment index")
        chunk_index = reader.unsigned(4, "chunk index")
        ciphertext = reader.take(reader.remaining, "ciphertext")
        if len(ciphertext) < RECORD_START_BYTES + TAG_BYTES:
            message = f"SEALED message: {len(ciphertext)} bytes of ciphertext, expected at least 20"
            raise Truncated(message)
        return cls(segment_index, chunk_index, ciphertext)

    def __bytes__(self) -> bytes:
        place = self.segment_index.to_bytes(8, "big") + self.chunk_index.to_bytes(4, "big")
        return place + self.ciphertext

    def nal(self) -> bytes:
        """The chunk as a whole SEI NAL unit."""
        return pack_veilcam(SeiKind.SEALED, bytes(self))


def part_of_region(region: int | None) -> int:
    """Which part of a split segment's sealed data a region is; None: what belongs to no region, part 0."""
    return 0 if region is None else region + 1


def chunk_number(part: int, index: int) -> int:
    """The chunk index of the ``index``-th chunk of a part.

    Raises:
        UsageError: there is no room for so many chunks.
    """
    if not 0 <= index < MAX_CHUNKS_PER_PART:
        message = f"sealed chunks: chunk {index} of part {part}, limit is {MAX_CHUNKS_PER_PART}"
        raise UsageError(message)
    return part << PART_SHIFT | index


def split_chunk_number(number: int) -> tuple[int, int]:
    """Part and index within it, from a chunk index of a split segment."""
    return number >> PART_SHIFT, number % MAX_CHUNKS_PER_PART


def sealed_bodies(unit: AccessUnit, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, ...]:
    """The bodies of the unit's SEALED messages, in order.

    Raises:
        FormatError: an SEI of ours is damaged, or there are too many.
    """
    bodies = tuple(
        message[1]
        for nal in unit.nals
        if veilcam_kind(nal) == SeiKind.SEALED and (message := read_veilcam(nal, limits)) is not None
    )
    if len(bodies) > limits.max_chunks_per_unit:
        text = f"access unit: {len(bodies)} sealed chunks, limit is {limits.max_chunks_per_unit}"
        raise Malformed(text)
    return bodies


def each_sealed_body(unit: AccessUnit, limits: Limits = DEFAULT_LIMITS) -> Iterator[bytes | FormatError]:
    """As `sealed_bodies`, for reading what is left of a damaged unit: a bad message costs itself alone.

    Of too many messages the first ones are given; the error in the last place says so.
    """
    num_seen = 0
    for nal in unit.nals:
        if veilcam_kind(nal) != SeiKind.SEALED:
            continue
        num_seen += 1
        if num_seen > limits.max_chunks_per_unit:
            yield Malformed(f"access unit: more than {limits.max_chunks_per_unit} sealed chunks")
            return
        try:
            message = read_veilcam(nal, limits)
        except FormatError as error:
            yield error
        else:
            if message is not None:
                yield message[1]


def chunk_room(free_bytes: int) -> int:
    """How many bytes of the sealed stream fit into a SEALED message that may take ``free_bytes`` in the unit.

    Counts the size coding (one byte per 255) and allows one emulation prevention byte per
    4 KiB: ciphertext is uniform, so that the expected number is one per 4 MiB.
    """
    usable = free_bytes - SEALED_OVERHEAD_BYTES
    return max(0, usable - usable // 250 - usable // 4096)


def chunk_cost(count: int) -> int:
    """What a SEALED message with ``count`` bytes of the sealed stream takes of the unit, at most."""
    return count + count // 230 + SEALED_OVERHEAD_BYTES + 2
