"""Random damage for every parser of the format; ``python -m tests.codec.fuzz 60`` runs it for 60 seconds.

Targets take bytes and may raise FormatError, or KeyUnavailable and AuthenticationFailed where keys are
used. Anything else is a bug and ends the run with the input's hex.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

from base.errors import AuthenticationFailed, FormatError, KeyUnavailable
from codec.access_unit import AccessUnit
from codec.chunks import SealedChunk, sealed_bodies
from codec.digests import chunk_aad, header_digest, unit_digest
from codec.limits import Limits
from codec.nal import AvcConfig, split_annexb, split_avcc
from codec.packets import SealedPacket, SealedStream, pack_stream
from codec.records import FrameRecord, Meta, SegmentHeader, SignatureRecord
from codec.segments import SegmentView, ViewedUnit, read_segments, view_unit
from codec.sei import SeiKind, pack_veilcam, read_messages
from codec.unseal import open_segment
from codec.verify import SegmentEvidence, check_segment
from keys import EpochRing
from keys.schedule import chunk_nonce
from tests.support.streams import AUDIO, PPS, SPS, VIDEO, build_stream, camera_key, recipient

LIMITS = Limits(max_unit_bytes=100_000, max_segment_bytes=300_000, max_frames_per_segment=50)
RING = EpochRing(camera_key().camera_id, [recipient()[0]])
STREAM = build_stream("KPPP|KPP", epochs=RING, num_bytes=60)
LENGTHS = [len(unit.annexb()) for unit in STREAM.units]
BODY = b"".join(unit.annexb() for unit in STREAM.units)
META = bytes(view_unit(STREAM.units[0]).meta or b"")
HEADER = STREAM.views()[0].header_body or b""
SIGNATURE = (view_unit(STREAM.units[3]).meta or Meta(FrameRecord(bytes(16), 0, 0, 0, 0))).signature or b""
RECORDS = pack_stream((VIDEO, AUDIO), STREAM.packets[:8])
INTERESTING = (0, 1, 2, 3, 4, 5, 6, 0x7F, 0x80, 0x81, 0x82, 0x83, 0x84, 0xFE, 0xFF)

Target = Callable[[bytes], None]


def whole_stream(data: bytes) -> None:
    """Split, group, check and open, as a file's units would be. Raises nothing at all."""
    units, at = [], 0
    for length in LENGTHS:
        with contextlib.suppress(FormatError):
            units.append(AccessUnit.from_annexb(data[at : at + length], at, LIMITS))
        at += length
    evidence: SegmentEvidence | None = None
    for view in read_segments(units, LIMITS):
        evidence = check_segment(view, STREAM.camera, evidence, limits=LIMITS)
        open_segment(view, RING.current().key, limits=LIMITS)


def meta_in_place(data: bytes) -> None:
    """A META message that is well formed as SEI, with any content."""
    unit = STREAM.units[0]
    forged = unit.without_veilcam().with_sei([pack_veilcam(SeiKind.META, data), unit.nals[3]])
    for view in read_segments([forged, *STREAM.units[1:4]], LIMITS):
        check_segment(view, STREAM.camera, limits=LIMITS)
        open_segment(view, [STREAM.identity], limits=LIMITS)


def authentic_records(data: bytes) -> None:
    """A sealed byte stream that decrypts, with any content."""
    view = sealed_view(data)
    opened = open_segment(view, RING.current().key, limits=LIMITS)
    if all(problem.loss.value != "record damaged" for problem in opened.problems):
        assert len(opened.packets) <= LIMITS.max_records_per_segment


def sealed_view(data: bytes) -> SegmentView:
    """A segment of one unit with one chunk that holds ``data``."""
    view = STREAM.views()[0]
    header, first = view.header(), view.units[0]
    assert header is not None
    assert first.frame is not None
    assert first.meta is not None
    keys = RING.current().key.segment(header.camera_id, header.stream_id, header.epoch_id, 0)
    picture = unit_digest(bytes(first.frame), first.unit)
    aad = chunk_aad(header_digest(HEADER), header.camera_id, 0, 0, picture)
    chunk = SealedChunk(0, 0, keys.sealed_cipher().seal(chunk_nonce(0), bytes(4) + data, aad))
    return SegmentView(
        view.key, (ViewedUnit(first.unit.without_sealed().with_sei([chunk.nal()]), first.meta),)
    )


def _ignore(parse: Callable[[bytes], object]) -> Target:
    def target(data: bytes) -> None:
        parse(data)

    return target


TARGETS: dict[str, tuple[Target, bytes]] = {
    "whole stream": (whole_stream, BODY),
    "meta in place": (meta_in_place, META),
    "authentic records": (authentic_records, RECORDS),
    "annexb": (_ignore(split_annexb), STREAM.units[0].annexb()),
    "avcc": (_ignore(lambda data: split_avcc(data, 4)), STREAM.units[0].avcc()),
    "avcC": (_ignore(AvcConfig.parse), bytes(AvcConfig(4, (SPS,), (PPS,)))),
    "sei": (_ignore(lambda data: list(read_messages(data))), STREAM.units[0].nals[2]),
    "frame": (_ignore(FrameRecord.parse), META[5:42]),
    "header": (_ignore(SegmentHeader.parse), HEADER),
    "signature": (_ignore(SignatureRecord.parse), SIGNATURE),
    "meta": (_ignore(Meta.parse), META),
    "stream": (_ignore(SealedStream.parse), bytes(VIDEO)),
    "packet": (_ignore(SealedPacket.parse), bytes(STREAM.packets[0])),
    "chunk": (_ignore(SealedChunk.parse), sealed_bodies(STREAM.units[0])[0]),
}


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to six random edits."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.randint(1, 16))
        match rng.randrange(8):
            case 0 | 1 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 2 | 3 if at < len(out):
                out[at] = rng.choice(INTERESTING)
            case 4:
                del out[at:end]
            case 5:
                out[at:at] = bytes(rng.choice(INTERESTING) for _ in range(rng.randint(1, 8)))
            case 6:
                source = rng.randrange(len(out) + 1)
                out[at:end] = out[source : source + (end - at)]
            case 7 if rng.random() < 0.2:
                del out[at:]
            case _:
                out[at:end] = rng.randbytes(end - at)
    return bytes(out)


def execute(name: str, data: bytes) -> str:
    """Run one target; the kind of outcome."""
    target, _ = TARGETS[name]
    try:
        target(data)
    except (FormatError, KeyUnavailable, AuthenticationFailed) as error:
        return type(error).__name__
    except BaseException:
        sys.stderr.write(f"{name}: {data.hex()}\n")
        raise
    return "accepted"


def main(seconds: float, seed: int) -> None:
    """Run all targets in turn and print what came out."""
    rng = random.Random(seed)
    outcomes: Counter[tuple[str, str]] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, (_, sample) in TARGETS.items():
            outcomes[name, execute(name, mutate(sample, rng))] += 1
    for (name, outcome), count in sorted(outcomes.items()):
        sys.stdout.write(f"{name:20} {outcome:22} {count}\n")
    sys.stdout.write(f"{sum(outcomes.values())} executions, seed {seed}, no other exception\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
